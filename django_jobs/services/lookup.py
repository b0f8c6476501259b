"""Finding a job."""

from __future__ import annotations

import uuid
from typing import Any

from django_jobs.exceptions import JobAccessDenied, JobNotFound
from django_jobs.models import Asset, Job, clock


def load_job(job_id: uuid.UUID | str) -> Job:
    """Return the job as the database that is written to has it now, or raise ``JobNotFound``."""
    key = _as_uuid(job_id)
    job: Job | None = Job.objects.using(clock.alias_for_write()).filter(pk=key).first()
    if job is None:
        raise JobNotFound(f"There is no job {key}.")
    return job


def get_job(job_id: uuid.UUID | str, user: Any) -> Job:
    """Return the user's job. ``JobNotFound``, or ``JobAccessDenied`` if it is somebody else's."""
    job = load_job(job_id)
    if job.user_id != user.pk:
        raise JobAccessDenied
    return job


def get_job_assets(job_id: uuid.UUID | str, user: Any) -> list[Asset]:
    """Return the assets of the user's job in the order of their making. Errors as ``get_job``."""
    job = get_job(job_id, user)
    return list(Asset.objects.using(job._state.db).filter(job=job).order_by("id"))


def _as_uuid(job_id: uuid.UUID | str) -> uuid.UUID:
    if isinstance(job_id, uuid.UUID):
        return job_id
    try:
        return uuid.UUID(job_id)
    except (TypeError, ValueError, AttributeError) as error:
        raise JobNotFound(f"{job_id!r:.60} is not the id of a job.") from error
