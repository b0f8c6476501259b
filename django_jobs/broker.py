"""The job table as django-q2's broker.

``Q_CLUSTER = {"broker_class": "django_jobs.broker.JobBroker", …}``: whenever jobs are due, the
workers of the cluster are given the word "drain"; they claim jobs from the table themselves.
Ordinary ``async_task`` calls and schedules go through django-q2's ORM broker, which it extends.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from typing import Any

from django.db import connections
from django.utils import timezone
from django_q.brokers.orm import ORM
from django_q.conf import Conf
from django_q.signing import SignedPackage

from django_jobs.conf import conf
from django_jobs.execution.claim import claimable
from django_jobs.execution.connections import be_brisk
from django_jobs.models import clock
from django_jobs.services.settling import Sightings, settle_quietly
from django_jobs.values import describe_exception
from django_jobs.wakeup import Listener

logger = logging.getLogger(__name__)
DRAIN = "django_jobs.execution.drain.drain"
LONGEST_WAIT = 1.0  # seconds in one dequeue, so that the cluster can stop
SHORTEST_POLL = 0.25  # seconds; with it an idle cluster asks no more than with the ORM broker
BETWEEN_DRAINS = 0.02  # seconds between two hand-outs
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
        """Return ordinary tasks and drains, after waiting for some up to a second.

        Raises nothing: an error would cost the cluster ten seconds and its pusher.
        """
        try:
            return self._next_packages() or None
        except Exception as error:  # noqa: BLE001 - drivers raise what they like
            logger.warning("the broker waits for the database: %s", describe_exception(error))
            connections.close_all()
            time.sleep(min(conf.POLL, LONGEST_WAIT))
            return None

    def acknowledge(self, task_id: Any) -> None:
        """Remove an ordinary task that is done. Drains have no id: nothing to remove."""
        if task_id is not None:
            super().acknowledge(task_id)

    def _next_packages(self) -> list[tuple[Any, str]]:
        if self._watch is None:
            self._watch = JobWatch(clock.alias_for_write())
        self._watch.wait()
        # drains first: nothing stands between a notification and the worker; they are handed out
        # at most each BETWEEN_DRAINS seconds, so that ordinary tasks have their turn
        tasks = [(None, drain_package()) for _ in range(self._watch.drains_wanted())]
        if not tasks and self._ordinary().exists():
            tasks = super().dequeue() or []
        if tasks:
            self._watch.look_again_at_once()
        return tasks

    def _ordinary(self) -> Any:
        return self.get_connection().filter(key=self.list_key, lock__lt=timezone.now())


class JobWatch:
    """Watches the job table for one pusher process: when to look, how many drains to hand out."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._listener = Listener(alias)
        self._next_look = 0.0
        self._next_drains = 0.0
        self._oldest: tuple[Any, ...] | None = None
        self._handed_out_at = 0.0
        be_brisk(alias)
        threading.Thread(target=_settle_for_ever, args=[alias], name="settler", daemon=True).start()

    def wait(self) -> None:
        """Wait for a notification or for the time of the next look, at most a second."""
        seconds = self._next_look - time.monotonic()
        if seconds > 0:
            self._listener.wait(min(seconds, LONGEST_WAIT))
        self._next_look = time.monotonic() + self._poll

    def look_again_at_once(self) -> None:
        self._next_look = 0.0

    def drains_wanted(self) -> int:
        """Return how many drains to hand out: one for each job that is due, up to the workers.

        Level-triggered: whatever is still due at the next look gets a drain then. The same oldest
        job as last time (locked, or all workers are busy) gets the next one after a poll only.
        """
        now = time.monotonic()
        if now < self._next_drains:
            self._next_look = self._next_drains
            return 0
        due = list(claimable(self._alias).values_list("pk", "due_at")[: Conf.WORKERS])
        oldest = due[0] if due else None
        if due and oldest == self._oldest and now - self._handed_out_at < conf.POLL:
            self._next_look = min(self._next_look, self._handed_out_at + conf.POLL)
            return 0
        self._oldest = oldest
        self._handed_out_at = now
        self._next_drains = now + BETWEEN_DRAINS
        return len(due)

    @property
    def _poll(self) -> float:
        if self._listener.is_listening:
            return float(conf.POLL)
        return float(min(conf.POLL, max(SHORTEST_POLL, Conf.POLL)))


def drain_package() -> str:
    """Return the signed word "drain": no timeout of django-q2's, no result saved, no ack."""
    return str(
        SignedPackage.dumps(
            {
                "id": uuid.uuid4().hex,
                "name": "drain",
                "func": DRAIN,
                "args": (time.monotonic(),),
                "kwargs": {},
                "started": timezone.now(),
                "timeout": -1,
                "save": False,
            }
        )
    )


def _settle_for_ever(alias: str) -> None:
    be_brisk(alias)
    sightings = Sightings()
    while True:
        settle_quietly(alias, sightings)
        time.sleep(min(SETTLE_EVERY, conf.TICK))
