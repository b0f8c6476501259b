"""Taking a job from state to state by its id."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from django_jobs.exceptions import InvalidStateTransitionError, StaleJob
from django_jobs.models import FailureCode, Job, JobStatus, persistence
from django_jobs.services.fencing import check_fence
from django_jobs.services.lookup import load_job
from django_jobs.services.progress import update_progress
from django_jobs.values import whole_percent

TRIES = 10  # of a step whose row changed between read and write
_OPTIONS = {
    JobStatus.QUEUED: set[str](),
    JobStatus.PROCESSING: {"progress"},
    JobStatus.COMPLETED: {"progress", "result"},
    JobStatus.PARTIAL: {"progress", "result", "error_message"},
    JobStatus.FAILED: {"progress", "error_message", "failure_code"},
}


def transition_status(
    job_id: uuid.UUID | str,
    target_status: str,
    *,
    progress: float | None = None,
    error_message: str | None = None,
    result: Any = None,
    failure_code: str | None = None,
    actor: Any = None,
    attempt: int | None = None,
) -> Job:
    """Take a job to ``target_status`` and return it; PROCESSING again is an update of its progress.

    ``progress`` is a percentage 0..100; COMPLETED and PARTIAL are always at 100. Raises
    ``InvalidStateTransitionError``, ``LeaseLost`` (see ``check_fence``), ``JobNotFound``,
    ``InvalidResult``, or ``ValueError`` for an option that does not go with the target.
    """
    target = JobStatus(target_status)
    percent = None if progress is None else whole_percent(progress)
    options = {"result": result, "error_message": error_message, "failure_code": failure_code}
    _check_options(target, percent, options)

    def step(job: Job) -> None:
        if target == JobStatus.FAILED and percent is not None and not job.is_terminal:
            job.report(percent)
        _take_step(job, target, options, actor)
        if target == JobStatus.PROCESSING and percent is not None:
            job.report(percent)

    job = load_job(job_id)
    if target == job.status == JobStatus.PROCESSING:
        return update_progress(job_id, percent or 0, attempt=attempt)
    return take_step(job, step, attempt=attempt)


def mark_completed(job_id: uuid.UUID | str, result: Any = None) -> Job:
    """End a running job COMPLETED. Errors as ``transition_status``."""
    return transition_status(job_id, JobStatus.COMPLETED, result=result)


def mark_partial(job_id: uuid.UUID | str, result: Any = None, error_message: str = "") -> Job:
    """End a running job PARTIAL. Errors as ``transition_status``."""
    return transition_status(job_id, JobStatus.PARTIAL, result=result, error_message=error_message)


def mark_failed(
    job_id: uuid.UUID | str,
    error_message: str,
    *,
    failure_code: str = FailureCode.HANDLER_ERROR,
) -> Job:
    """End a running job FAILED. Errors as ``transition_status``."""
    return transition_status(
        job_id, JobStatus.FAILED, error_message=error_message, failure_code=failure_code
    )


def take_step(job: Job, step: Callable[[Job], None], *, attempt: int | None = None) -> Job:
    """Let ``step`` change the job, write it guarded; look again if it moved on."""
    for _ in range(TRIES):
        check_fence(job, attempt)
        step(job)
        try:
            persistence.update(job, persistence.alias_of(job), guard=persistence.OUTCOME)
        except StaleJob as error:
            stale = error
            job = load_job(job.pk)
        else:
            return job
    raise stale


def _take_step(job: Job, target: JobStatus, options: dict[str, Any], actor: Any) -> None:
    message = options["error_message"] or ""
    if target == JobStatus.PROCESSING:
        job.start(actor=actor)
    elif target == JobStatus.COMPLETED:
        job.complete(options["result"], actor=actor)
    elif target == JobStatus.PARTIAL:
        job.complete_partially(options["result"], message, actor=actor)
    elif target == JobStatus.FAILED:
        job.fail(message, options["failure_code"] or FailureCode.HANDLER_ERROR, actor=actor)
    else:
        raise InvalidStateTransitionError(job.status, target)


def _check_options(target: JobStatus, percent: int | None, options: dict[str, Any]) -> None:
    given = {name for name, value in options.items() if value is not None}
    wrong = sorted(given - _OPTIONS[target])
    if wrong:
        raise ValueError(f"{', '.join(wrong)} cannot be given with the status {target}")
    if target in (JobStatus.COMPLETED, JobStatus.PARTIAL) and percent not in (None, 100):
        raise ValueError(f"the progress of a job that is {target} is 100, not {percent}")
    if options["failure_code"] is not None:
        FailureCode(options["failure_code"])
