"""Who may start a job over the API: what the type of the job says."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import PermissionDenied

from django_jobs.handlers import JobType, registry


def check_may_start(user: Any, job_type: str) -> JobType:
    """Return the type called ``job_type``. Raises ``UnknownJobType``, ``PermissionDenied``."""
    known = registry.get(job_type)
    if not known.may_be_started_by(user):
        raise PermissionDenied
    return known
