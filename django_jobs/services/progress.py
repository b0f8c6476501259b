"""Telling how far a running job is."""

from __future__ import annotations

import logging
import uuid
from typing import Any

from django.db.models import F
from django.db.models.functions import Greatest

from django_jobs.exceptions import LeaseLost
from django_jobs.models import Job, JobStatus, clock, persistence
from django_jobs.models.attempts import EXTERNAL
from django_jobs.services.fencing import Fence, check_fence
from django_jobs.services.lookup import load_job
from django_jobs.values import whole_percent

logger = logging.getLogger(__name__)


def update_progress(
    job_id: uuid.UUID | str,
    progress: float,
    *,
    message: str | None = None,
    attempt: int | None = None,
) -> Job:
    """Set the progress (percent, 0..100) of a running job and return it.

    It never goes back within an attempt. Outside PROCESSING nothing changes, with a logged
    warning. Raises ``LeaseLost`` (see ``check_fence``), ``JobNotFound``, ``ValueError``.
    """
    percent = whole_percent(progress)
    job = load_job(job_id)
    if job.status != JobStatus.PROCESSING:
        logger.warning(
            "job %s (%s): progress ignored, the job is %s", job.pk, job.job_type, job.status
        )
        return job
    check_fence(job, attempt)
    job.report(percent, message)
    if job.worker.startswith(EXTERNAL):
        job.renew_external_lease()
    changes = {"due_at": job.due_at, "updated_at": job.updated_at}
    if message is not None:
        changes["progress_message"] = job.progress_message
    if not write_progress(Fence.of(job), persistence.alias_of(job), job.progress, **changes):
        raise LeaseLost(f"Attempt {job.attempt} of job {job.pk} is over.")
    job.version += 1
    job.remember()
    return job


def write_progress(fence: Fence, alias: str, percent: int, **changes: Any) -> bool:
    """Write a progress (and other columns) if the attempt is still open; say whether it was.

    The greater of the stored and the given percentage stays, whichever write comes last.
    """
    rows = fence.row(alias).guarded_update(
        **{"updated_at": clock.now(alias), **changes},
        progress=Greatest("progress", percent),
        version=F("version") + 1,
    )
    return bool(rows)
