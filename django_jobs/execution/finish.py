"""Writing the outcome of an attempt, exactly once, whatever the database does meanwhile."""

from __future__ import annotations

import logging

from django.db import DataError, IntegrityError

from django_jobs.exceptions import LeaseLost, StaleJob
from django_jobs.execution.outcome import Outcome
from django_jobs.models import FailureCode, Job, persistence
from django_jobs.models.job import cancel_message
from django_jobs.models.transient import TRANSIENT, Patience
from django_jobs.services.fencing import Fence
from django_jobs.values import clean_text

logger = logging.getLogger(__name__)


def finish(job: Job, outcome: Outcome, alias: str, *, patience: float) -> None:
    """Write ``outcome`` for the open attempt that ``job`` holds.

    A database that is away is tried again for ``patience`` seconds; the fence makes that safe.
    Raises ``LeaseLost`` if somebody else decided meanwhile.
    """
    outcome.apply(job)
    finish_applied(job, outcome, alias, patience=patience)


def finish_applied(job: Job, outcome: Outcome, alias: str, *, patience: float) -> None:
    """``finish`` for an outcome that ``job`` has in memory already.

    An outcome that the database refuses, or that twice costs the connection to a database that is
    there (a packet too large looks like that), becomes FAILED ``invalid_result``; once.
    """
    waiting = Patience(alias, patience)
    is_refused = False
    while True:
        try:
            _write(job, outcome, alias)
            return
        except (DataError, IntegrityError) as error:
            if is_refused:
                raise
            outcome, is_refused = _refuse(job, error), True
        except TRANSIENT as error:
            waiting.bear(error, f"job {job.pk} ({job.job_type}): its outcome waits")
            if waiting.breaks >= 2 and not is_refused:
                outcome, is_refused = _refuse(job, error), True


def _write(job: Job, outcome: Outcome, alias: str) -> None:
    try:
        persistence.update(job, alias, guard=persistence.OUTCOME)
    except StaleJob as error:
        if persistence.acknowledge(job, alias):
            return
        _write_after_request(job, outcome, alias, error)


def _write_after_request(job: Job, outcome: Outcome, alias: str, error: StaleJob) -> None:
    """The row is not as expected: still ours, but asked to be cancelled; or somebody else's.

    An end stays what it is, and follows the request in the log; another attempt does not.
    """
    fence = Fence(job.pk, job._loaded["attempt"], job._loaded["worker"])
    found = fence.row(alias).first()
    if found is None or found.cancel_requested_at is None:
        raise LeaseLost(str(error)) from error
    if job.is_waiting:
        message = requested_cancel_message(job, alias)
        outcome = Outcome(code=FailureCode.CANCELLED, message=message)
    job.forget_steps()
    job.take_from(found, "cancel_requested_at", "cancel_requested_by_id", "updated_at")
    outcome.apply(job)
    try:
        persistence.update(job, alias)
    except StaleJob as lost:
        raise LeaseLost(str(lost)) from lost


def requested_cancel_message(job: Job, alias: str) -> str:
    """Return the text of the request to cancel ``job``, as its log has it."""
    request = (
        job.transitions.using(alias)
        .filter(code=FailureCode.CANCELLED)
        .values_list("message", flat=True)
        .last()
    )
    return request or cancel_message("")


def _refuse(job: Job, error: Exception) -> Outcome:
    logger.error("job %s (%s): its outcome cannot be stored: %r", job.pk, job.job_type, error)
    job.forget_steps()
    message = f"result: the database refuses it ({clean_text(type(error).__name__)})"
    outcome = Outcome(code=FailureCode.INVALID_RESULT, message=message)
    outcome.apply(job)
    return outcome
