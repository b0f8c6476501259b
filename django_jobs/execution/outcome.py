"""How an attempt ended: decided once, from what the handler returned, raised and counted."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any

from django_jobs.exceptions import (
    AttemptLost,
    InvalidParameters,
    InvalidResult,
    JobCancelled,
    JobFailed,
    JobTimedOut,
    WorkerStopping,
)
from django_jobs.execution.items import Items
from django_jobs.models import FailureCode, Job
from django_jobs.models.attempts import backoff
from django_jobs.states import RETRYABLE_CODES
from django_jobs.values import clean_text, describe_exception, redacted, text_of_exception

MAX_TRACEBACK_CHARS = 20_000


@dataclass(frozen=True)
class Partial:
    """Returned by a handler: the job ends PARTIAL with this result and this text for the user."""

    result: Any = None
    error_message: str = ""


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended. Without ``code`` it went well; ``is_partial`` went well in part."""

    result: Any = None
    code: FailureCode | None = None
    message: str = ""
    detail: str = ""
    is_partial: bool = False
    is_repeatable: bool = False

    def apply(self, job: Job) -> None:
        """Take the step in memory; a result that cannot be stored makes it FAILED."""
        try:
            self._apply(job)
        except InvalidResult as error:
            job.fail(str(error), FailureCode.INVALID_RESULT)

    def _apply(self, job: Job) -> None:
        if self.code is None:
            job.complete(self.result)
        elif self.is_partial:
            job.complete_partially(self.result, self.message)
        elif self.is_repeatable and job.may_be_repeated:
            known = job.type
            delay = backoff(known.retry_delay if known else 0, job.attempt)
            job.postpone(delay=delay, code=self.code, message=self.message, detail=self.detail)
        else:
            job.fail(self.message, self.code, detail=self.detail)


def outcome_of_return(returned: Any, items: Items) -> Outcome:
    """Decide from what the handler returned and how its items went."""
    if isinstance(returned, Partial):
        message = returned.error_message or (items.summary() if items.failed else "")
        code = FailureCode.SOME_ITEMS_FAILED
        return Outcome(returned.result, code, str(message), is_partial=True)
    if not items.failed:
        return Outcome(returned)
    if not items.succeeded:
        return Outcome(code=FailureCode.ALL_ITEMS_FAILED, message=items.summary())
    return Outcome(returned, FailureCode.SOME_ITEMS_FAILED, items.summary(), is_partial=True)


def outcome_of_exception(error: BaseException) -> Outcome:
    """Decide from what the handler raised, whatever it is."""
    if isinstance(error, JobFailed):
        message = text_of_exception(error)
        return Outcome(code=FailureCode.HANDLER_ERROR, message=message, is_repeatable=error.retry)
    code, message = _verdict(error)
    return Outcome(
        code=code,
        message=message,
        detail=_traceback(error),
        is_repeatable=code in RETRYABLE_CODES,
    )


def _verdict(error: BaseException) -> tuple[FailureCode, str]:
    if isinstance(error, InvalidParameters):
        return FailureCode.INVALID_PARAMETERS, str(error)
    if isinstance(error, JobCancelled):
        return FailureCode.CANCELLED, str(error)
    if isinstance(error, JobTimedOut):
        return FailureCode.TIMED_OUT, str(error)
    if isinstance(error, WorkerStopping):
        return FailureCode.SHUTDOWN, ""
    if isinstance(error, AttemptLost):
        return FailureCode.WORKER_LOST, ""
    return FailureCode.HANDLER_ERROR, describe_exception(error)


def _traceback(error: BaseException) -> str:
    try:
        text = "".join(traceback.format_exception(error))
    except BaseException:  # noqa: BLE001 - user code: an exception's __str__ may raise anything
        text = "".join(traceback.format_tb(error.__traceback__))
    text = redacted(text)
    if len(text) > MAX_TRACEBACK_CHARS:  # the end names the error
        text = "…" + text[-MAX_TRACEBACK_CHARS:]
    return clean_text(text, MAX_TRACEBACK_CHARS + 1)
