"""Running one attempt: handler in, outcome out, whatever the handler does."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable
from typing import IO, Any

from asgiref.sync import async_to_sync

from django_jobs.exceptions import JobFailed, UnknownJobType
from django_jobs.execution.connections import ConnectionWatch
from django_jobs.execution.context import Attempt, JobContext
from django_jobs.execution.items import Items
from django_jobs.execution.outcome import Outcome, outcome_of_exception, outcome_of_return
from django_jobs.handlers import registry
from django_jobs.handlers.parameters import revived_parameters
from django_jobs.models import FailureCode, Job
from django_jobs.services.failed_items import (
    ASSET_NAME,
    ASSET_TYPE,
    CONTENT_TYPE,
    ENDED_BY_ITEMS,
)
from django_jobs.services.fencing import current_fence
from django_jobs.services.files import removed_if_rolled_back

logger = logging.getLogger(__name__)


def run_handler(job: Job, attempt: Attempt, alias: str) -> Outcome:
    """Run the handler of ``job`` to its end and say how it went; raise nothing of it."""
    with removed_if_rolled_back(alias):
        return _run(job, attempt, alias)


def _run(job: Job, attempt: Attempt, alias: str) -> Outcome:
    watch = ConnectionWatch(alias)
    token = current_fence.set(attempt.fence)
    items = Items()
    try:
        outcome = _outcome(job, attempt, items)
    finally:
        current_fence.reset(token)
    left_open = watch.left_open()
    watch.restore()
    is_rolled_back = left_open and (outcome.code is None or outcome.is_partial)
    with items.whole_list() as listed:
        if listed is not None and outcome.code in ENDED_BY_ITEMS and not is_rolled_back:
            _keep_list(job, attempt, listed)
    if is_rolled_back:
        return Outcome(
            code=FailureCode.HANDLER_ERROR,
            message=(
                f"The handler left a transaction open on the database {left_open!r}; "
                "what it wrote there was rolled back."
            ),
            is_repeatable=True,
        )
    return outcome


def _outcome(job: Job, attempt: Attempt, items: Items) -> Outcome:
    try:
        return outcome_of_return(_call(job, attempt, items), items)
    except BaseException as error:  # noqa: BLE001 - the one broad catch: a handler may raise anything
        return outcome_of_exception(error)


def _call(job: Job, attempt: Attempt, items: Items) -> Any:
    known = registry.get(job.job_type)
    if known.handler is None:
        raise UnknownJobType(f"The type {known.name} has no handler.")
    if job.items_to_retry is not None and not known.retry_failed_items:  # it would do all again
        raise JobFailed(f"The type {known.name} cannot retry the failed items alone.")
    with attempt.body():
        context = JobContext(job, revived_parameters(known, job.parameters), attempt, items)
        returned = known.handler(context)
        if inspect.isawaitable(returned):
            returned = async_to_sync(_result_of)(returned)
    if inspect.isgenerator(returned) or inspect.isasyncgen(returned):
        raise TypeError("the handler returned a generator: its body has not run")
    return returned


def _keep_list(job: Job, attempt: Attempt, listed: IO[bytes]) -> None:
    """Save the list of failed items as a handler would, within its limit.

    Whatever that meets, a storage that is away or a request to cancel, costs the list and not the
    outcome.
    """
    try:
        with attempt.body():
            context = JobContext(job, {}, attempt)
            context.save_asset(ASSET_NAME, listed, ASSET_TYPE, CONTENT_TYPE)
    except BaseException:
        logger.exception(
            "job %s (%s): the list of its failed items is not stored", job.pk, job.job_type
        )


async def _result_of(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
