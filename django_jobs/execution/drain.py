"""A drain: a worker takes jobs from the table and runs them, one after the other."""

from __future__ import annotations

import logging
import os
import time

from django.db import Error

from django_jobs.conf import conf
from django_jobs.execution.attempt import KeptAttempt, interruptible
from django_jobs.execution.claim import claim_next
from django_jobs.execution.handover import finish_alone, finish_and_claim, has_listeners
from django_jobs.execution.keeper import Keeper
from django_jobs.execution.runner import run_handler
from django_jobs.models import Job, clock
from django_jobs.services.identity import worker_name

logger = logging.getLogger(__name__)
TOKEN_LIFE = 2.0  # seconds; an older word "drain" is stale: a newer one will come

_keepers: dict[tuple[int, str], Keeper] = {}  # by process, since threads do not survive a fork


def drain(issued_at: float) -> None:
    """Run what is due, until nothing is or ``DRAIN`` seconds have passed. What workers execute.

    ``issued_at`` is the ``time.monotonic()`` of the word. Raises nothing: a failed task would be
    stored and repeated by the engine under us.
    """
    if time.monotonic() - issued_at > TOKEN_LIFE:
        return
    try:
        run_what_is_due(clock.alias_for_write())
    except Error:
        logger.exception("a drain ended early")


def run_what_is_due(alias: str) -> int:
    """Run due jobs for at most ``DRAIN`` seconds of claiming; return how many."""
    worker = worker_name()
    keeper = _keepers.setdefault((os.getpid(), alias), Keeper(alias))
    stop_at = time.monotonic() + conf.DRAIN
    count = 0
    job = claim_next(alias, worker)
    if job is None:
        return 0
    keeper.begin_drain()
    try:
        while job is not None:
            count += 1
            job = _run(job, alias, worker, keeper, stop_at)
    finally:
        keeper.end_drain()
    return count


def _run(job: Job, alias: str, worker: str, keeper: Keeper, stop_at: float) -> Job | None:
    """Run one claimed job to the outcome of its attempt; return the next one if it was claimed."""
    attempt = KeptAttempt(job, alias, keeper.call)
    keeper.attend(attempt)
    with interruptible(attempt):
        outcome = run_handler(job, attempt, alias)
        attempt.end_body()
    attempt.reports.apply(job)
    is_time_left = time.monotonic() < stop_at
    if is_time_left and not has_listeners():
        following = finish_and_claim(job, outcome, alias, worker)
        keeper.attend(None)
        return following
    finish_alone(job, outcome, alias)
    keeper.attend(None)
    return claim_next(alias, worker) if is_time_left else None
