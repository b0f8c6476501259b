"""Running one attempt: handler in, outcome out, whatever the handler does."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any

from asgiref.sync import async_to_sync

from django_jobs.exceptions import UnknownJobType
from django_jobs.execution.connections import ConnectionWatch
from django_jobs.execution.context import Attempt, JobContext
from django_jobs.execution.outcome import Outcome, outcome_of_exception, outcome_of_return
from django_jobs.handlers import registry
from django_jobs.handlers.parameters import revived_parameters
from django_jobs.models import FailureCode, Job
from django_jobs.services.fencing import current_fence
from django_jobs.services.files import removed_if_rolled_back


def run_handler(job: Job, attempt: Attempt, alias: str) -> Outcome:
    """Run the handler of ``job`` to its end and say how it went; raise nothing of it."""
    with removed_if_rolled_back(alias):
        return _run(job, attempt, alias)


def _run(job: Job, attempt: Attempt, alias: str) -> Outcome:
    watch = ConnectionWatch(alias)
    token = current_fence.set(attempt.fence)
    try:
        outcome = _outcome(job, attempt)
    finally:
        current_fence.reset(token)
    left_open = watch.left_open()
    watch.restore()
    if left_open and (outcome.code is None or outcome.is_partial):
        return Outcome(
            code=FailureCode.HANDLER_ERROR,
            message=(
                f"The handler left a transaction open on the database {left_open!r}; "
                "what it wrote there was rolled back."
            ),
            is_repeatable=True,
        )
    return outcome


def _outcome(job: Job, attempt: Attempt) -> Outcome:
    try:
        returned, context = _call(job, attempt)
        return outcome_of_return(returned, context.items)
    except BaseException as error:  # noqa: BLE001 - the one broad catch: a handler may raise anything
        return outcome_of_exception(error)


def _call(job: Job, attempt: Attempt) -> tuple[Any, JobContext]:
    known = registry.get(job.job_type)
    if known.handler is None:
        raise UnknownJobType(f"The type {known.name} has no handler.")
    with attempt.body():
        context = JobContext(job, revived_parameters(known, job.parameters), attempt)
        returned = known.handler(context)
        if inspect.isawaitable(returned):
            returned = async_to_sync(_result_of)(returned)
    if inspect.isgenerator(returned) or inspect.isasyncgen(returned):
        raise TypeError("the handler returned a generator: its body has not run")
    return returned, context


async def _result_of(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
