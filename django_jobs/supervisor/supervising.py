"""The supervisor: starts clusters, passes signals on, and clears away what is left."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Callable

from django.db import connections
from django_q.brokers import get_broker
from django_q.conf import Conf

from django_jobs.broker import JobBroker
from django_jobs.models import clock
from django_jobs.services.settling import Sightings, settle_quietly
from django_jobs.supervisor.cluster import SIGNALS, adopt_orphans, be_cluster
from django_jobs.supervisor.generation import Generation
from django_jobs.supervisor.stall import Stall

logger = logging.getLogger(__name__)
BEAT = 0.5  # seconds
LEAST_LIFE = 5.0  # seconds; a cluster that dies younger is followed by a pause
LONGEST_PAUSE = 30.0  # seconds


class NoJobCluster(Exception):
    """This process is configured for a cluster that takes no jobs."""


class Supervisor:
    """Keeps one cluster alive until it is told to stop. To be run in the main thread."""

    def __init__(
        self,
        say: Callable[[str], object],
        *,
        workers: int | None = None,
        has_changed: Callable[[], bool] | None = None,
    ) -> None:
        if not isinstance(get_broker(), JobBroker):
            raise NoJobCluster(
                f"The cluster {Conf.CLUSTER_NAME!r} takes no jobs: its broker_class is not "
                "django_jobs.broker.JobBroker. Name another with Q_CLUSTER_NAME."
            )
        if workers is not None:
            Conf.WORKERS = Conf.QUEUE_LIMIT = workers
        self._say = say
        self._has_changed = has_changed
        self._generations: list[Generation] = []
        self._is_stopping = False
        self._had_to_kill = False
        self._starts_at = 0.0
        self._pause = 1.0
        self._stall = Stall(clock.alias_for_write())

    def run(self) -> bool:
        """Supervise until a signal; return whether everybody stopped in time."""
        adopt_orphans()
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # taken up in the loop, one by one
        while True:
            self._reap()
            if not self._is_stopping and self._current is None:
                self._start()
            if self._is_stopping and not self._generations:
                break
            self._take_signal()
            self._look_after()
        settle_quietly(self._stall.alias, Sightings())  # whom a signal of others has killed
        return not self._had_to_kill

    @property
    def _current(self) -> Generation | None:
        """The generation that takes up jobs, if it lives."""
        last = self._generations[-1] if self._generations else None
        return last if last and last.has_main and last.killed_at is None else None

    def _start(self) -> None:
        if time.monotonic() < self._starts_at:
            return
        connections.close_all()
        sys.stdout.flush()
        sys.stderr.flush()
        supervisor = os.getpid()
        main = os.fork()
        if main == 0:
            be_cluster(supervisor)
        self._generations.append(Generation(main))
        self._say(f"cluster {main} begins with {Conf.WORKERS} workers")

    def _take_signal(self) -> None:
        received = signal.sigtimedwait(SIGNALS, BEAT)
        if received is not None and received.si_signo != signal.SIGCHLD and not self._is_stopping:
            self._say(f"{signal.Signals(received.si_signo).name}: stopping")
            self.stop()

    def stop(self) -> None:
        self._is_stopping = True
        for generation in self._generations:
            generation.stop()

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                self._ended(*found)
        self._generations = [each for each in self._generations if each.is_alive]

    def _ended(self, pid: int, status: int) -> None:
        for generation in self._generations:
            if generation.main == pid:
                generation.ended_at = time.monotonic()
                generation.wind_up()  # its orphans end by themselves, when their jobs are done
                if not self._is_stopping:
                    self._begin_anew(generation, os.waitstatus_to_exitcode(status))

    def _begin_anew(self, ended: Generation, exit_code: int) -> None:
        life = time.monotonic() - ended.started_at
        self._pause = min(2 * self._pause, LONGEST_PAUSE) if life < LEAST_LIFE else 1.0
        if life < LEAST_LIFE:
            self._starts_at = time.monotonic() + self._pause
        logger.error("cluster %d has ended with %d: another begins", ended.main, exit_code)

    def _look_after(self) -> None:
        for generation in self._generations:
            self._clear_away(generation)
        current = self._current
        if current is None or self._is_stopping:
            return
        if self._has_changed is not None and self._has_changed():
            self.stop()
        elif self._stall.lasts(current):
            logger.error("cluster %d takes up no jobs: another begins", current.main)
            current.stop()

    def _clear_away(self, generation: Generation) -> None:
        """Kill what is left of a cluster: when it is late, or has nothing to do but to wait."""
        if generation.is_late:
            logger.error("what is left of cluster %d is late: it is killed", generation.main)
            self._had_to_kill = True
            generation.kill()
        elif generation.takes_up_nothing and self._stall.has_nothing_to_do(generation):
            generation.kill()  # a monitor that nobody tells to end, or that cannot hear it
