"""The open attempt in a worker: what the handler reported last, and whether it may be interrupted.

Main thread and keeper share it. The keeper interrupts with a real signal to the main thread, whose
handler raises only while this attempt's own body runs: never into the writing of an outcome, never
into the next job.
"""

from __future__ import annotations

import contextlib
import enum
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from django.db import OperationalError, connections

from django_jobs.conf import conf
from django_jobs.exceptions import AttemptInterrupted
from django_jobs.execution.items import Items
from django_jobs.execution.reports import Reports
from django_jobs.models import Asset, Job
from django_jobs.models.transient import is_lock_wait
from django_jobs.services.assets import attach
from django_jobs.services.fencing import Fence

SIGNAL = signal.SIGUSR2


class Phase(enum.Enum):
    CLAIMED = "claimed"
    BODY = "body"
    OUTCOME = "outcome"


class KeptAttempt:
    """An attempt whose lease a keeper renews. Times are of ``time.monotonic()``."""

    def __init__(
        self, job: Job, alias: str, call_keeper: Callable[[Callable[[], Asset]], Asset]
    ) -> None:
        now = time.monotonic()
        timeout = job.type.timeout if job.type else None
        self.job = job
        self.fence = Fence.of(job)
        self.timeout = timeout
        self.deadline = None if timeout is None else now + timeout
        self.is_last = not job.may_be_repeated
        self.lease = conf.lease(connections[alias].vendor)
        self.begun_at = self.renewed_at = now
        self.lock = threading.RLock()  # phase; held by the keeper while it ends the process
        self.phase = Phase.CLAIMED
        self.is_over = False  # somebody else ended it
        self.is_cancelled = False
        self.reports = Reports()
        self.is_dirty = False
        self._alias = alias
        self._call_keeper = call_keeper
        self.interrupted_by: AttemptInterrupted | None = None
        self.ends_by_force_at: float | None = None
        self._was_raised = False

    @property
    def cancel_requested(self) -> bool:
        return self.is_cancelled

    def report(self, percent: int, message: str | None, items: Items) -> None:
        """Remember what the handler says; the keeper writes the latest of it, once a second."""
        self.reports.remember(percent, message, items)
        self.is_dirty = True

    def attach(self, asset: Asset) -> Asset:
        """Write an asset so that it is visible at once and outlives a rollback of the handler's.

        Inside a transaction of the handler the keeper's connection does it, unless that would wait
        for a lock of the handler's own: then, and on SQLite with its one writer, the asset goes
        with the handler's transaction.
        """
        connection = connections[self._alias]
        if connection.in_atomic_block and connection.vendor != "sqlite":
            try:
                return self._call_keeper(lambda: attach(asset, self.fence, self._alias))
            except OperationalError as error:
                if not is_lock_wait(error):
                    raise
        return attach(asset, self.fence, self._alias)

    @contextlib.contextmanager
    def body(self) -> Iterator[None]:
        """The handler runs inside; only here can it be interrupted."""
        self.phase = Phase.BODY
        try:
            yield
        finally:
            self.end_body()

    def end_body(self) -> None:
        """From here on nothing interrupts. Called twice: an interrupt may hit the first call."""
        with self.lock:
            self.phase = Phase.OUTCOME

    def interrupt(self, reason: AttemptInterrupted) -> None:
        """Raise ``reason`` in the main thread, if the body still runs. Called by the keeper."""
        with self.lock:
            if self.phase is Phase.BODY and self.interrupted_by is None:
                self.interrupted_by = reason
                self.ends_by_force_at = time.monotonic() + conf.GRACE
                signal.pthread_kill(threading.main_thread().ident or 0, SIGNAL)

    def raise_interrupt(self) -> None:
        """In the main thread: raise what ``interrupt`` left, once, if the body still runs."""
        reason = self.interrupted_by
        if self.phase is Phase.BODY and reason is not None and not self._was_raised:
            self._was_raised = True
            raise reason


_current: KeptAttempt | None = None


def _on_signal(_number: int, _frame: Any) -> None:
    if _current is not None:
        _current.raise_interrupt()


@contextlib.contextmanager
def interruptible(attempt: KeptAttempt) -> Iterator[None]:
    """Let the keeper interrupt the body of ``attempt``; signals reach the main thread only."""
    global _current
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if signal.getsignal(SIGNAL) is not _on_signal:
        signal.signal(SIGNAL, _on_signal)
    _current = attempt
    try:
        yield
    finally:
        _current = None
