"""``manage.py jobworker``: a cluster of django-q2 in the foreground, under a supervisor.

The supervisor is a small process that runs nothing of the host's. It starts the cluster in a
process group of its own, so that a signal to the supervisor's group reaches the supervisor alone;
stops it in order; starts another when it dies, or lives and takes up no job; and leaves nobody
behind: on Linux orphans become its children, and a cluster whose supervisor is killed stops.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from django.db import Error, connections
from django_q.brokers import get_broker
from django_q.cluster import Cluster
from django_q.conf import Conf
from django_q.models import OrmQ

from django_jobs.broker import JobBroker
from django_jobs.conf import conf
from django_jobs.execution.claim import claimable
from django_jobs.models import Job, JobStatus, clock
from django_jobs.services.identity import machine_prefix
from django_jobs.services.settling import Sightings, settle_quietly
from django_jobs.values import describe_exception

logger = logging.getLogger(__name__)
SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}
BEAT = 0.5  # seconds
MARGIN = 5.0  # seconds that a cluster may take to stop beyond what its jobs may
STALL = 10.0  # seconds in which due work is not taken up by idle workers
LAST_BEGINNING = 4.0  # seconds after a stop in which a worker may yet take up a job
LEAST_LIFE = 5.0  # seconds; a cluster that dies younger is followed by a pause
LONGEST_PAUSE = 30.0  # seconds
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # prctl(2)


class NoJobCluster(Exception):
    """This process is configured for a cluster that takes no jobs."""


@dataclass
class Generation:
    """One cluster: its main process and the process group of all its processes."""

    main: int
    started_at: float = field(default_factory=time.monotonic)
    killed_at: float | None = None  # when what is left of it is to be killed
    ended_at: float | None = None  # when its main process did
    told_at: float | None = None  # when it was asked to stop

    @property
    def has_main(self) -> bool:
        return self.ended_at is None

    @property
    def is_alive(self) -> bool:
        try:
            os.killpg(self.main, 0)
        except ProcessLookupError:
            return False
        return True

    def stop(self) -> None:
        """Ask it to stop, and set the time at which it must have."""
        self.told_at = self.told_at or time.monotonic()
        if self.has_main:
            _signal(self.main, signal.SIGTERM)
        self.wind_up()

    def wind_up(self) -> None:
        if self.killed_at is None:
            self.killed_at = time.monotonic() + conf.SHUTDOWN_GRACE + conf.GRACE + MARGIN

    @property
    def is_late(self) -> bool:
        return self.killed_at is not None and time.monotonic() >= self.killed_at

    @property
    def takes_up_nothing(self) -> bool:
        """Whether it has ended or was told to so long ago that its workers begin nothing more."""
        moments = [at for at in (self.ended_at, self.told_at) if at is not None]
        return bool(moments) and time.monotonic() - min(moments) >= LAST_BEGINNING

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.main, signal.SIGKILL)


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
        _adopt_orphans()
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
            _be_cluster(supervisor)
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


class Stall:
    """Whether a cluster lives and takes up nothing: due work waits while workers are idle."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self._seen: tuple[int, uuid.UUID | None] | None = None
        self._since = 0.0
        self._looks_at = 0.0

    def lasts(self, generation: Generation) -> bool:
        """Say whether the same job has waited for ``STALL`` seconds. Looks each few seconds."""
        now = time.monotonic()
        if now < self._looks_at:
            return False
        self._looks_at = now + STALL / 4
        try:
            waits = self._oldest_that_waits_for_nothing(generation)
        except Error as error:  # an outage is nobody's stall
            logger.warning("cannot see whether jobs are taken up: %s", describe_exception(error))
            connections.close_all()
            waits = None
        if waits is None or self._seen != (generation.main, waits):
            self._seen, self._since = (generation.main, waits), now
            return False
        return now - self._since >= STALL

    def has_nothing_to_do(self, generation: Generation) -> bool:
        """Whether no process of ``generation`` runs a job, or may run an ordinary task."""
        try:
            return self._engaged(generation) == 0
        except Error:
            connections.close_all()
            return False

    def _oldest_that_waits_for_nothing(self, generation: Generation) -> uuid.UUID | None:
        oldest: uuid.UUID | None = claimable(self.alias).values_list("pk", flat=True).first()
        if oldest is None or self._engaged(generation) >= Conf.WORKERS:
            return None
        return oldest

    def _engaged(self, generation: Generation) -> int:
        """How many workers of ``generation`` run jobs, or may run ordinary tasks."""
        workers = Job.objects.using(self.alias).filter(
            status=JobStatus.PROCESSING, worker__startswith=machine_prefix()
        )
        pids = [int(name.split("/")[2]) for name in workers.values_list("worker", flat=True)]
        running = sum(_group_of(pid) == generation.main for pid in pids)
        ordinary = OrmQ.objects.using(Conf.ORM or self.alias).filter(
            key=Conf.CLUSTER_NAME, lock__gt=clock.now(self.alias)
        )
        return running + int(ordinary.count())


def _be_cluster(supervisor: int) -> None:
    """In the child: be the main process of a cluster until it ends; never return."""
    exit_code = 1
    try:
        os.setsid()
        _end_with_parent(supervisor)
        exit_code = _run_cluster()
    except BaseException:
        logger.exception("the cluster could not begin")
    finally:
        logging.shutdown()
        os._exit(exit_code)


def _run_cluster() -> int:
    cluster = Cluster()
    is_told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: is_told.set())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    cluster.start()
    while cluster.sentinel.is_alive():
        if is_told.is_set():
            is_told.clear()
            # in a thread: it hangs when the guard was killed while it waited for this very event
            threading.Thread(target=cluster.stop_event.set, daemon=True).start()
        cluster.sentinel.join(BEAT / 5)
    return int(cluster.sentinel.exitcode or 0)


def _end_with_parent(parent: int) -> None:
    """Have the kernel send SIGTERM to this process when its parent ends, however it does."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it was faster
        os._exit(1)


def _adopt_orphans() -> None:
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None
