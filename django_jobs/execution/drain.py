"""A drain: a worker takes jobs from the table and runs them, one after the other.

A drain that finds nothing due waits for the next job at the end of a line to its cluster's pusher,
until it is told to end.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass

from django.db import Error, close_old_connections

from django_jobs.conf import conf
from django_jobs.execution import orphans
from django_jobs.execution.attempt import KeptAttempt, interruptible
from django_jobs.execution.claim import claim_next
from django_jobs.execution.handover import finish_alone, finish_and_claim, has_listeners
from django_jobs.execution.keeper import Keeper
from django_jobs.execution.line import Line
from django_jobs.execution.runner import run_handler
from django_jobs.models import Job, clock
from django_jobs.services.identity import worker_name

logger = logging.getLogger(__name__)
TOKEN_LIFE = 2.0  # seconds; an older word "drain" is stale: a newer one will come
LONGEST_IDLE = 10.0  # seconds until a drain that nobody wakes looks at the table by itself

_keepers: dict[tuple[int, str], Keeper] = {}  # by process, since threads do not survive a fork


def drain(issued_at: float, address: str = "", number: int = 0, guard: int = 0) -> None:
    """Run what is due, and what will be, until told to end. What workers execute.

    ``issued_at`` is the ``time.monotonic()`` of the word, ``number`` its number, ``address`` where
    the pusher that gave it is called, ``guard`` the process that guards the worker. Without an
    address it ends when nothing is due or ``DRAIN`` seconds have passed. Raises nothing: a failed
    task would be stored and repeated by the engine under us.
    """
    orphans.remember_guard(guard)
    line = Line.call(address, number) if address else None
    is_stale = line is None if address else time.monotonic() - issued_at > TOKEN_LIFE
    try:
        if not is_stale:
            serve(clock.alias_for_write(), line)
    except Error:
        logger.exception("a drain ended early")
    finally:
        if line is not None:
            line.close()
    orphans.leave_if_orphan()


def serve(alias: str, line: Line | None) -> None:
    """Run what is due; wait for more as long as ``line`` allows."""
    stop_at = time.monotonic() + conf.DRAIN
    while True:
        run_what_is_due(alias, line, stop_at)
        idle_since = time.monotonic()
        if line is None or line.is_over or idle_since > stop_at:
            return
        close_old_connections()
        if not line.wait(LONGEST_IDLE):
            return
        stop_at += time.monotonic() - idle_since  # the bound is of work, not of waiting
        close_old_connections()


def run_what_is_due(alias: str, line: Line | None = None, stop_at: float | None = None) -> int:
    """Run due jobs until ``stop_at`` (monotonic; ``DRAIN`` seconds from now); return how many."""
    worker = worker_name()
    keeper = _keepers.setdefault((os.getpid(), alias), Keeper(alias))
    bound = Bound(time.monotonic() + conf.DRAIN if stop_at is None else stop_at, line)
    count = 0
    job = claim_next(alias, worker)
    if job is None:
        return 0
    keeper.begin_drain(line)
    try:
        while job is not None:
            count += 1
            job = _run(job, alias, worker, keeper, bound)
    finally:
        keeper.end_drain()
    return count


@dataclass(frozen=True)
class Bound:
    """How long a drain goes on claiming: for a while, and until the cluster stops."""

    stop_at: float
    line: Line | None

    @property
    def allows_more(self) -> bool:
        is_over = self.line is not None and self.line.is_over
        return not is_over and time.monotonic() < self.stop_at


def _run(job: Job, alias: str, worker: str, keeper: Keeper, bound: Bound) -> Job | None:
    """Run one claimed job to the outcome of its attempt; return the next one if it was claimed."""
    attempt = KeptAttempt(job, alias, keeper.call)
    keeper.attend(attempt)
    with interruptible(attempt):
        outcome = run_handler(job, attempt, alias)
        attempt.end_body()
    attempt.reports.apply(job)
    allows_more = bound.allows_more
    if allows_more and not has_listeners():
        following = finish_and_claim(job, outcome, alias, worker)
        keeper.attend(None)
        return following
    finish_alone(job, outcome, alias)
    keeper.attend(None)
    return claim_next(alias, worker) if allows_more else None
