"""Who may write for an open attempt.

The fence is (attempt, worker): ``attempt`` alone is the same before and after the end of an
attempt that will be repeated.
"""

from __future__ import annotations

import uuid
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from django_jobs.exceptions import LeaseLost
from django_jobs.models import Job, JobStatus
from django_jobs.models.attempts import is_ours


@dataclass(frozen=True)
class Fence:
    """One attempt of one job by one worker."""

    job_id: uuid.UUID
    attempt: int
    worker: str

    @classmethod
    def of(cls, job: Job) -> Fence:
        return cls(job.pk, job.attempt, job.worker)

    def row(self, alias: str) -> Any:
        """The row of the job while this attempt is open: what each of its writes goes through."""
        return Job.objects.using(alias).unchanged(
            self.job_id, status=JobStatus.PROCESSING, attempt=self.attempt, worker=self.worker
        )


#: The attempt whose handler is running here; its own calls of the services are let through.
current_fence: ContextVar[Fence | None] = ContextVar("django_jobs_fence", default=None)


def check_fence(job: Job, attempt: int | None) -> None:
    """Raise ``LeaseLost`` unless the caller may write for the open attempt of ``job``.

    Inside the handler that attempt must still be its own; elsewhere ``attempt`` must be the open
    one; without it, a job that one of our workers holds is refused.
    """
    own = current_fence.get()
    if own is not None and own.job_id == job.pk:
        if own != Fence.of(job):
            raise LeaseLost(f"Attempt {own.attempt} of job {job.pk} is over.")
    elif attempt is not None:
        if attempt != job.attempt:
            raise LeaseLost(f"Job {job.pk} is at attempt {job.attempt}, not {attempt}.")
    elif job.status == JobStatus.PROCESSING and is_ours(job.worker):
        raise LeaseLost(f"Job {job.pk} is held by one of our workers.")
