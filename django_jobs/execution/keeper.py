"""The keeper: a thread that watches over the attempt which the main thread runs.

Within a second it writes the latest progress; once a tick it renews the lease and settles what
others left behind. It sees requests to cancel and the deadline and interrupts the handler; one that
does not react within the grace period is ended together with the process, its outcome written
first.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import queue
import threading
import time
import traceback
from collections.abc import Callable
from sys import _current_frames
from typing import NoReturn

from django.db import Error, connections

from django_jobs.conf import conf
from django_jobs.exceptions import AttemptLost, JobCancelled, JobTimedOut, LeaseLost, WorkerStopping
from django_jobs.execution import orphans, watchdog
from django_jobs.execution.attempt import KeptAttempt, Phase
from django_jobs.execution.connections import be_brisk, brief
from django_jobs.execution.finish import finish, requested_cancel_message
from django_jobs.execution.line import Line
from django_jobs.execution.outcome import outcome_of_exception
from django_jobs.models import Asset, Job, clock
from django_jobs.models.transient import again_if_undone, is_lock_wait
from django_jobs.services.durations import in_words
from django_jobs.services.fencing import Fence
from django_jobs.services.progress import write_progress
from django_jobs.services.settling import Sightings, settle_quietly
from django_jobs.values import describe_exception

logger = logging.getLogger(__name__)
BEAT = 0.9  # seconds; what a handler reports can be seen within one second
MARGIN = 3.0  # seconds between the keeper's own end of a process and the watchdog's
FORCED_EXIT = 70  # the exit status of a process whose handler would not stop

Request = tuple[Callable[[], Asset], "queue.Queue[Asset | BaseException]"]


class Keeper:
    """Watches over one attempt at a time. The thread starts with the first drain."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._wake = threading.Condition()
        self._attempt: KeptAttempt | None = None
        self._is_draining = False
        self._line: Line | None = None
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._sightings = Sightings()
        self._settled_at = time.monotonic()
        self._thread: threading.Thread | None = None

    # -- called by the main thread -------------------------------------------------------------

    def begin_drain(self, line: Line | None = None) -> None:
        self._line = line
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)
            self._thread.start()
        with self._wake:
            self._is_draining = True
            self._wake.notify()

    def end_drain(self) -> None:
        with self._wake:
            self._is_draining = False
            self._attempt = None
            watchdog.disarm()  # under the lock: the thread must not arm it for an idle worker
            self._wake.notify()

    def attend(self, attempt: KeptAttempt | None) -> None:
        """Watch over ``attempt`` from now on: the watchdog at once, the thread at its next beat.

        A handler may hold the interpreter's lock from its first line on.
        """
        self._attempt = attempt
        if attempt is None:
            return
        with self._wake:
            _arm_watchdog(_limits(attempt))
            if attempt.timeout is not None and attempt.timeout < 2 * BEAT:
                self._wake.notify()  # its deadline comes before the beat after the next

    def call(self, function: Callable[[], Asset]) -> Asset:
        """Run ``function`` in the keeper's thread, on its own connection, and return its result."""
        reply: queue.Queue[Asset | BaseException] = queue.Queue()
        self._requests.put((function, reply))
        with self._wake:
            self._wake.notify()
        result = reply.get()
        if isinstance(result, BaseException):
            raise result
        return result

    # -- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        be_brisk(self._alias)
        while True:
            self._wait()
            self._answer_requests()
            attempt = self._attempt
            if attempt is not None:
                try:
                    if attempt.is_over:
                        _end_if_stubborn(attempt)
                    else:
                        self._beat(attempt)
                except Exception:  # without its keeper the attempt would be lost
                    logger.exception("job %s: its keeper stumbled", attempt.fence.job_id)

    def _wait(self) -> None:
        with self._wake:
            if not self._is_draining and self._requests.empty():
                connections[self._alias].close()
                self._wake.wait(BEAT)
                if not self._is_draining:
                    orphans.leave_if_orphan()
            elif self._requests.empty():
                self._wake.wait(self._time_to_next_look())

    def _time_to_next_look(self) -> float:
        beat = min(BEAT, conf.TICK)
        attempt = self._attempt
        if attempt is None:
            return beat
        moments = [attempt.begun_at + _short()]
        if attempt.deadline is not None:
            moments += [attempt.deadline, attempt.deadline + conf.GRACE]
        now = time.monotonic()
        return max(0.01, min([beat, *(moment - now for moment in moments if moment > now)]))

    def _answer_requests(self) -> None:
        while not self._requests.empty():
            function, reply = self._requests.get()
            try:
                reply.put(self._briefly(function))
            except BaseException as error:  # noqa: BLE001 - raised again in the main thread
                reply.put(error)

    def _briefly(self, function: Callable[[], Asset]) -> Asset:
        def once() -> Asset:
            with brief(self._alias):
                return function()

        return again_if_undone(self._alias, once)

    def _beat(self, attempt: KeptAttempt) -> None:
        try:
            self._heed_stop(attempt)
            self._enforce_deadline(attempt)
            now = time.monotonic()
            if now - attempt.begun_at >= _short():
                self._write(attempt, now)
            self._settle(now)
        except LeaseLost as error:
            logger.warning("job %s: %s", attempt.fence.job_id, error)
            attempt.is_over = True
            attempt.interrupt(AttemptLost())
        except Error as error:
            self._note_failure(attempt, error)
        self._rearm_watchdog(attempt)

    # -- lease, progress, cancel ---------------------------------------------------------------

    def _write(self, attempt: KeptAttempt, now: float) -> None:
        is_due = now - attempt.renewed_at >= conf.TICK
        if not (is_due or attempt.is_dirty):
            return
        has_news, attempt.is_dirty = attempt.is_dirty, False
        try:
            with brief(self._alias):
                matched = self._renew(attempt, has_news)
                asked = matched and self._is_asked_to_cancel(attempt)
        except Error:
            attempt.is_dirty = has_news
            raise
        if not matched and attempt.phase is not Phase.OUTCOME:
            raise LeaseLost(f"attempt {attempt.fence.attempt} is over")
        attempt.renewed_at = now
        if asked:
            attempt.is_cancelled = True
            attempt.interrupt(JobCancelled(requested_cancel_message(attempt.job, self._alias)))

    def _renew(self, attempt: KeptAttempt, has_news: bool) -> bool:
        lease_end = attempt.job.lease_end(clock.now(self._alias), attempt.lease)
        if not has_news:
            return bool(attempt.fence.row(self._alias).guarded_update(due_at=lease_end))
        columns = attempt.reports.columns()
        percent = attempt.reports.percent
        return write_progress(attempt.fence, self._alias, percent, due_at=lease_end, **columns)

    def _is_asked_to_cancel(self, attempt: KeptAttempt) -> bool:
        asked: bool = (
            attempt.fence.row(self._alias).filter(cancel_requested_at__isnull=False).exists()
        )
        return asked

    def _note_failure(self, attempt: KeptAttempt, error: Error) -> None:
        logger.warning(
            "job %s: its lease could not be renewed: %s",
            attempt.fence.job_id,
            describe_exception(error),
        )
        self._sightings.clear()
        connection = connections[self._alias]
        connection.close()
        if is_lock_wait(error):  # a sign of life: no settler ends a row that is locked
            attempt.renewed_at = time.monotonic()
            return
        silent = time.monotonic() - attempt.renewed_at
        if not attempt.is_last and silent >= attempt.lease - 2 * conf.TICK:
            attempt.interrupt(AttemptLost())

    def _settle(self, now: float) -> None:
        if now - self._settled_at >= conf.TICK:
            self._settled_at = now
            settle_quietly(self._alias, self._sightings)

    # -- stop and deadline ---------------------------------------------------------------------

    def _heed_stop(self, attempt: KeptAttempt) -> None:
        """The cluster stops: its jobs have ``SHUTDOWN_GRACE`` seconds to end."""
        since = None if self._line is None else self._line.stops_since
        if since is not None and time.monotonic() - since >= conf.SHUTDOWN_GRACE:
            attempt.interrupt(WorkerStopping())

    def _enforce_deadline(self, attempt: KeptAttempt) -> None:
        now = time.monotonic()
        if attempt.deadline is not None and now >= attempt.deadline:
            limit = in_words(attempt.timeout)
            timed_out = JobTimedOut(f"The job took longer than its limit of {limit}.")
            attempt.interrupt(timed_out)
            if now >= attempt.deadline + conf.GRACE:
                self._end_by_force(attempt, timed_out)
        elif attempt.ends_by_force_at is not None and now >= attempt.ends_by_force_at:
            self._end_by_force(attempt, attempt.interrupted_by)

    def _end_by_force(self, attempt: KeptAttempt, reason: BaseException | None) -> None:
        """The handler did not react: write the outcome, and end the process if that was ours."""
        with attempt.lock:
            if attempt.phase is not Phase.BODY or reason is None:
                return
            outcome = dataclasses.replace(
                outcome_of_exception(reason), detail=_where_the_main_thread_is()
            )
            job = Job.objects.using(self._alias).filter(pk=attempt.fence.job_id).first()
            if job is None or job.is_terminal or Fence.of(job) != attempt.fence:
                raise LeaseLost(f"attempt {attempt.fence.attempt} is over")
            attempt.reports.apply(job)
            finish(job, outcome, self._alias, patience=0)
            _end_process(job)

    def _rearm_watchdog(self, attempt: KeptAttempt) -> None:
        """End the process before another attempt can start, and a while after the deadline.

        The last attempt may outlive its lease: nobody can start another, and the fence decides.
        """
        with self._wake:
            is_running = self._attempt is attempt and attempt.phase is Phase.BODY
            _arm_watchdog(_limits(attempt) if is_running else [])


def _short() -> float:
    """How long a job may take, in seconds, that costs the keeper no statement."""
    return min(BEAT, conf.TICK) * 0.5


def _limits(attempt: KeptAttempt) -> list[float]:
    """Return when the process must be gone if nothing changes (monotonic)."""
    limits = []
    if not attempt.is_last:
        limits.append(attempt.renewed_at + attempt.lease - conf.io_timeout)
    if attempt.deadline is not None:
        limits.append(attempt.deadline + conf.GRACE + MARGIN)
    return limits


def _arm_watchdog(limits: list[float]) -> None:
    if limits:
        watchdog.arm(min(limits) - time.monotonic())
    else:
        watchdog.disarm()


def _end_if_stubborn(attempt: KeptAttempt) -> None:
    """Somebody else ended the attempt, and its handler does not react: it must not go on."""
    with attempt.lock:
        ends_at = attempt.ends_by_force_at
        if attempt.phase is Phase.BODY and ends_at is not None and time.monotonic() >= ends_at:
            _end_process(attempt.job)


def _end_process(job: Job) -> NoReturn:
    logger.error("job %s (%s): its handler did not stop; this process ends", job.pk, job.job_type)
    logging.shutdown()
    os._exit(FORCED_EXIT)


def _where_the_main_thread_is() -> str:
    frame = _current_frames().get(threading.main_thread().ident or 0)
    return "".join(traceback.format_stack(frame)) if frame else ""
