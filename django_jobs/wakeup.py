"""How somebody hears that jobs wait: run here (immediate engine) or tell the workers."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Sequence

from django.db import transaction
from django.utils.module_loading import import_string

from django_jobs.conf import conf
from django_jobs.models import Job

# The one upward step, by name: the immediate engine runs what was just committed.
_RUN_HERE = "django_jobs.execution.immediate.run_job"


def jobs_wait(jobs: Sequence[Job], alias: str) -> None:
    """After commit, see that new ``jobs`` are run."""
    if conf.ENGINE == "immediate":
        for job in jobs:
            if job.run_at is None or job.run_at <= job.created_at:
                transaction.on_commit(functools.partial(_run_here, job.pk, alias), using=alias)


def _run_here(job_id: uuid.UUID, alias: str) -> None:
    import_string(_RUN_HERE)(job_id, alias)
