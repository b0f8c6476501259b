"""What people do to a job: cancel it, retry it."""

from __future__ import annotations

import uuid
from typing import Any

from django.db import IntegrityError, transaction

from django_jobs import wakeup
from django_jobs.exceptions import InvalidStateTransitionError, JobNotRetryable, StaleJob
from django_jobs.handlers import registry
from django_jobs.handlers.parameters import stored_parameters
from django_jobs.models import FailureCode, Job, JobStatus, persistence
from django_jobs.models.job import cancel_message
from django_jobs.services.creation import enter
from django_jobs.services.failed_items import names_of_failed_items
from django_jobs.services.lifecycle import TRIES
from django_jobs.services.lookup import load_job

RETRYABLE_STATES = (JobStatus.FAILED, JobStatus.PARTIAL)


def cancel_job(job_id: uuid.UUID | str, *, actor: Any, reason: str = "") -> Job:
    """Cancel a job and return it: one that waits ends at once, a running one is asked to stop.

    Whoever asks first is recorded. A job that is cancelled already comes back as it is. Raises
    ``InvalidStateTransitionError`` if it ended otherwise, ``JobNotFound``.
    """
    for _ in range(TRIES):
        job = load_job(job_id)
        if job.is_terminal:
            if job.failure_code == FailureCode.CANCELLED:
                return job
            raise InvalidStateTransitionError(job.status, JobStatus.FAILED)
        if job.is_waiting:
            end_waiting(job, FailureCode.CANCELLED, cancel_message(reason), actor=actor)
        elif job.cancel_requested_at is None:
            job.request_cancel(actor=actor, reason=reason)
        else:
            return job
        try:
            persistence.update(job, persistence.alias_of(job), guard=persistence.DECISION)
        except StaleJob as error:  # claimed, finished or renewed in between: look again
            stale = error
        else:
            return job
    raise stale


def end_waiting(job: Job, code: FailureCode, message: str, *, actor: Any = None) -> None:
    """Take a job that waits to FAILED, in memory."""
    if job.status == JobStatus.QUEUED:
        job.withdraw(actor=actor)
    job.fail(message, code, actor=actor)


def retry_job(job_id: uuid.UUID | str, *, actor: Any, only_failed: bool = False) -> Job:
    """Order a FAILED or PARTIAL job again, as a new job of its owner, and return the new one.

    ``only_failed`` gives the handler the names of the items that failed, if its type declares
    ``retry_failed_items``; else the retry is about the same items as ``job_id``. A job is retried
    once: retry the retry after that. Raises ``JobNotRetryable``, ``JobNotFound``, and what
    ``create_job`` raises for the type and the parameters.
    """
    job = load_job(job_id)
    if job.status not in RETRYABLE_STATES:
        raise JobNotRetryable(
            f"Job {job.pk} is {job.status}: only a failed or partial one is retried."
        )
    known = registry.get(job.job_type)
    again = Job(
        user_id=job.user_id,
        job_type=job.job_type,
        parameters=stored_parameters(known, job.parameters),
        queue=job.queue,
        priority=job.priority,
        max_attempts=known.max_attempts,
        retry_of_id=job.pk,
        items_to_retry=names_of_failed_items(job) if only_failed else job.items_to_retry,
    )
    again.ordered_by = actor
    alias = persistence.alias_of(job)
    try:
        with transaction.atomic(using=alias):
            enter(again, known)
    except IntegrityError as error:
        if Job.objects.using(alias).filter(retry_of=job).exists():
            raise JobNotRetryable(f"Job {job.pk} was retried already.") from error
        load_job(job.pk)  # deleted meanwhile: JobNotFound
        raise
    wakeup.refresh_what_ran([again], alias)
    return again
