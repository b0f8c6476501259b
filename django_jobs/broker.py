"""The job table as django-q2's broker.

``Q_CLUSTER = {"broker_class": "django_jobs.broker.JobBroker", …}``: the workers of
the cluster are given the word "drain"; they claim jobs from the table themselves, and wait inside
the drain for more.
Ordinary ``async_task`` calls and schedules go through django-q2's ORM broker, which it extends.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
import uuid
from multiprocessing.util import Finalize
from typing import Any

from django.core.signing import BadSignature
from django.db import connections
from django.utils import timezone
from django_q.brokers.orm import ORM
from django_q.conf import Conf
from django_q.signals import post_execute_in_worker, pre_execute
from django_q.signing import SignedPackage

from django_jobs.conf import conf
from django_jobs.execution import orphans
from django_jobs.execution.claim import claimable
from django_jobs.execution.connections import be_brisk
from django_jobs.execution.switchboard import Switchboard
from django_jobs.models import clock
from django_jobs.services.identity import parent_of
from django_jobs.services.settling import Sightings, settle_quietly
from django_jobs.values import describe_exception
from django_jobs.wakeup import Listener

logger = logging.getLogger(__name__)
DRAIN = "django_jobs.execution.drain.drain"
LONGEST_WAIT = 1.0  # seconds in one dequeue, so that the cluster can stop
SHORTEST_POLL = 0.25  # seconds; with it an idle cluster asks no more than with the ORM broker
BETWEEN_LOOKS = 0.02  # seconds between two looks at the table
SETTLE_EVERY = 1.0  # seconds


class JobBroker(ORM):  # type: ignore[misc]
    """Hands out what ``async_task`` queued, and drains for due jobs."""

    def __init__(self, list_key: str | None = None) -> None:
        # not the base class's: that connects to the database, and this runs in every process
        self.list_key = list_key or Conf.CLUSTER_NAME
        self.connection = None
        self.cache = self.get_cache()
        self._info = "django_jobs"
        self._watch: JobWatch | None = None

    def __getstate__(self) -> tuple[str, str]:
        return self.list_key, self._info

    def __setstate__(self, state: tuple[str, str]) -> None:
        JobBroker.__init__(self, state[0])

    def dequeue(self) -> list[tuple[Any, str]] | None:
        """Return ordinary tasks and words "drain", after waiting for some up to a second.

        Raises nothing: an error would cost the cluster ten seconds and its pusher.
        """
        try:
            return self._next_packages() or None
        except Exception as error:  # noqa: BLE001 - drivers raise what they like
            _wait_for_the_database(error)
            return None

    def acknowledge(self, task_id: Any) -> None:
        """Remove an ordinary task that is done. Drains have no id: nothing to remove."""
        if task_id is not None:
            super().acknowledge(task_id)

    def _next_packages(self) -> list[tuple[Any, str]]:
        if self._watch is None:
            self._watch = JobWatch(clock.alias_for_write()).start()
        self._watch.end_if_orphan()
        words = self._watch.words()
        if words:
            return [(None, word) for word in words]
        tasks = self._ordinary_tasks()
        if tasks:
            self._watch.switchboard.ordinary_tasks(len(tasks))
        else:
            self._watch.wait_for_words()
        return tasks

    def _ordinary_tasks(self) -> list[tuple[Any, str]]:
        waiting = self.get_connection().filter(key=self.list_key, lock__lt=timezone.now())
        tasks = super().dequeue() or [] if waiting.exists() else []
        return [task for task in tasks if _is_readable(*task)]


class JobWatch:
    """Watches the job table for one pusher process, and wakes drains; settles; sees the end."""

    def __init__(self, alias: str) -> None:
        self.switchboard = Switchboard(Conf.WORKERS)
        self._alias = alias
        self._listener = Listener(alias)
        self._news = True
        self._next_look = self._looked_at = 0.0
        self._oldest: tuple[Any, ...] | None = None
        self._words_without_lines = 0
        self._guard = os.getppid()
        self._main = parent_of(self._guard)
        be_brisk(alias)

    def start(self) -> JobWatch:
        Finalize(
            None, self.switchboard.stop, exitpriority=10
        )  # not run by a process that is killed
        for name, target in (("watch", self._watch_for_ever), ("settler", self._settle_for_ever)):
            threading.Thread(target=target, name=name, daemon=True).start()
        return self

    # -- the pusher's own thread ---------------------------------------------------------------

    def words(self) -> list[str]:
        """Return the words "drain" to hand out now."""
        numbers = self.switchboard.numbers_of_words()
        without_lines, self._words_without_lines = self._words_without_lines, 0
        numbers += [0] * without_lines
        return [drain_package(self.switchboard.address, number, self._guard) for number in numbers]

    def wait_for_words(self) -> None:
        """Wait until words are to be handed out or it is time to look for ordinary tasks."""
        self.switchboard.wait_for_vacancy(min(self._poll, LONGEST_WAIT))

    def end_if_orphan(self) -> None:
        """End this process when the cluster's guard is gone; and that one, when its parent is."""
        if os.getppid() != self._guard:
            logger.warning("the guard of this cluster is gone: its pusher ends")
            raise SystemExit
        if self._main is not None and parent_of(self._guard) != self._main:
            logger.warning("the main process of this cluster is gone: the cluster ends")
            os.kill(self._guard, signal.SIGTERM)

    # -- a thread of its own: looking at the table ---------------------------------------------

    def _watch_for_ever(self) -> None:
        be_brisk(self._alias)
        while True:
            try:
                self.watch()
            except Exception as error:  # noqa: BLE001 - drivers raise what they like
                _wait_for_the_database(error)

    def watch(self) -> None:
        """Wait for news or the time of the next look; then wake drains for what is due."""
        self._news |= self._listener.begin()
        seconds = min(self._next_look - time.monotonic(), LONGEST_WAIT)
        self.switchboard.serve(seconds, self._listener.descriptors())
        if self._listener.was_notified():
            self.switchboard.wake(1)  # the fastest way; the look follows
            self._news = True
        if self._news and self._idle():
            self._next_look = min(self._next_look, self._looked_at + BETWEEN_LOOKS)
        if time.monotonic() >= self._next_look:
            self._look()

    def _look(self) -> None:
        """Level-triggered: whatever is still due at the next look has drains woken then."""
        self._looked_at = time.monotonic()
        self._next_look = self._looked_at + self._poll
        idle = self._idle()
        if not idle:  # who is busy looks by itself; news are kept for who has just done so
            return
        if due := self.due(idle):
            # the same oldest job as last time may be one that nobody can take: no hot loop
            count = len(due) if due[0] != self._oldest or self._news else 1
            self._oldest = due[0]
            self._wake(count)
        self._news = False

    def due(self, limit: int) -> list[tuple[Any, ...]]:
        """Return what is due, at most ``limit`` jobs: (id, due_at) in the order of claims."""
        return list(claimable(self._alias).values_list("pk", "due_at")[:limit])

    def _idle(self) -> int:
        return self.switchboard.idle() if self.switchboard.address else int(Conf.WORKERS)

    def _wake(self, count: int) -> None:
        if self.switchboard.address:
            self.switchboard.wake(count)
        else:
            self._words_without_lines = count

    @property
    def _poll(self) -> float:
        if self._listener.is_listening:
            return float(conf.POLL)
        return float(min(conf.POLL, max(SHORTEST_POLL, Conf.POLL)))

    # -- another: settling ---------------------------------------------------------------------

    def _settle_for_ever(self) -> None:
        be_brisk(self._alias)
        sightings = Sightings()
        while True:
            settle_quietly(self._alias, sightings)
            time.sleep(min(SETTLE_EVERY, conf.TICK))


def drain_package(address: str = "", number: int = 0, guard: int = 0) -> str:
    """Return the signed word "drain": no timeout of django-q2's, no result saved, no ack."""
    return str(
        SignedPackage.dumps(
            {
                "id": uuid.uuid4().hex,
                "name": "drain",
                "func": DRAIN,
                "args": (time.monotonic(), address, number, guard),
                "kwargs": {},
                "started": timezone.now(),
                "timeout": -1,
                "save": False,
            }
        )
    )


def _is_readable(task_id: Any, package: str) -> bool:
    """Say whether the pusher survives this task; if not, it is tried again when its lock ends."""
    try:
        SignedPackage.loads(package)
    except (TypeError, BadSignature):  # which the pusher removes
        return True
    except Exception as error:  # noqa: BLE001 - unpickling imports, and so may raise anything
        logger.error("ordinary task %s cannot be read: %s", task_id, describe_exception(error))
        return False
    return True


def _wait_for_the_database(error: Exception) -> None:
    logger.warning("the broker waits for the database: %s", describe_exception(error))
    connections.close_all()
    time.sleep(min(conf.POLL, LONGEST_WAIT))


def _begins_ordinary_task(func: Any, task: dict[str, Any], **_: Any) -> None:
    orphans.engage(task.get("func") != DRAIN)


def _ended_task(**_: Any) -> None:
    orphans.engage(False)


pre_execute.connect(_begins_ordinary_task, dispatch_uid="django_jobs.begins")
post_execute_in_worker.connect(_ended_task, dispatch_uid="django_jobs.ended")
