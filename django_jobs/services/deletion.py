"""Removing a job that has ended."""

from __future__ import annotations

import uuid

from django_jobs.exceptions import JobNotDeletable
from django_jobs.models import Job, persistence
from django_jobs.services.lookup import load_job
from django_jobs.states import LIVE_STATES


def delete_job(job_id: uuid.UUID | str) -> None:
    """Delete a job that has ended with its log, its assets and, after commit, their files.

    Raises ``JobNotDeletable`` for a live one: cancel it first. ``JobNotFound``.
    """
    job = load_job(job_id)
    if job.status in LIVE_STATES:  # what has ended stays so
        raise JobNotDeletable(f"Job {job.pk} is {job.status}: only one that has ended is deleted.")
    Job.objects.using(persistence.alias_of(job)).filter(pk=job.pk).delete()
