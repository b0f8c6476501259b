"""How somebody hears that jobs wait: run them here (immediate engine) or tell the workers.

On PostgreSQL workers LISTEN; elsewhere, and as a safety net there too, they look at the table.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import secrets
import time
import uuid
from collections.abc import Sequence
from typing import Any

from django.db import DatabaseError, connections, transaction
from django.utils.module_loading import import_string

from django_jobs.conf import conf
from django_jobs.models import Job
from django_jobs.values import describe_exception

logger = logging.getLogger(__name__)
CHANNEL = "django_jobs"
_PLANNED = "_django_jobs_notification"  # (place in run_on_commit, callback), on the connection
PROOF = 1.0  # seconds for our own notification to come back
# The one upward step, by name: the immediate engine runs what was just committed.
_RUN_HERE = "django_jobs.execution.immediate.run_job"


def jobs_wait(jobs: Sequence[Job], alias: str) -> None:
    """After commit, see that new ``jobs`` are run as soon as they are due."""
    due = [job for job in jobs if job.run_at is None or job.run_at <= job.created_at]
    if conf.ENGINE == "immediate":
        for job in due:
            transaction.on_commit(functools.partial(_run_here, job.pk, alias), using=alias)
    elif due and conf.NOTIFY and connections[alias].vendor == "postgresql":
        _notify_at_commit(alias)


def refresh_what_ran(jobs: Sequence[Job], alias: str) -> None:
    """Under the immediate engine, new ``jobs`` that have run by now are taken as they are now."""
    if conf.ENGINE != "immediate" or connections[alias].in_atomic_block:
        return
    for job in jobs:
        # its handler may have deleted it; and what was ordered is ordered, whatever goes wrong here
        with contextlib.suppress(Job.DoesNotExist, DatabaseError):
            job.refresh_from_db(using=alias)


def _run_here(job_id: uuid.UUID, alias: str) -> None:
    import_string(_RUN_HERE)(job_id, alias)


def _notify_at_commit(alias: str) -> None:
    """Notify once for all jobs of a transaction; what a rollback took back does not count."""
    connection = connections[alias]
    callbacks = connection.run_on_commit
    place, callback = getattr(connection, _PLANNED, (0, None))
    is_planned = place < len(callbacks) and callbacks[place][1] is callback
    if is_planned and callbacks[place][0] <= set(connection.savepoint_ids):
        return
    callback = functools.partial(_notify, alias)
    setattr(connection, _PLANNED, (len(callbacks), callback))
    transaction.on_commit(callback, using=alias, robust=True)


def _notify(alias: str) -> None:
    try:
        with connections[alias].cursor() as cursor:
            # nobody need wait for the disk: a lost notification is made up for by polling
            cursor.execute(
                "SELECT pg_notify(%s, '') "
                "FROM (SELECT set_config('synchronous_commit', 'off', true)) AS lazily",
                [CHANNEL],
            )
    except DatabaseError as error:  # the workers look at the table anyway
        logger.warning("no worker was notified: %s", describe_exception(error))


class Listener:
    """Hears the notifications of one database; nothing where it cannot."""

    RETRY = 30.0  # seconds until a connection that heard nothing is tried again

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._wrapper: Any = None
        self._retry_at = 0.0

    @property
    def is_listening(self) -> bool:
        return self._wrapper is not None

    def begin(self) -> bool:
        """Begin to listen if it is time to try; True if it just began: look at the table then.

        What came before was not heard.
        """
        if self._wrapper is not None or time.monotonic() < self._retry_at:
            return False
        return self._begin()

    def descriptors(self) -> list[int]:
        """What becomes readable at a notification, for ``select``."""
        if self._wrapper is not None and self._wrapper.connection.closed:
            self._give_up("the connection that listens was lost", 1.0)
        return [] if self._wrapper is None else [self._wrapper.connection.fileno()]

    def was_notified(self) -> bool:
        """Say whether a notification has come since the last call; never waits."""
        if self._wrapper is None:
            return False
        try:
            return bool(list(self._wrapper.connection.notifies(timeout=0)))
        except Exception as error:  # noqa: BLE001 - drivers raise their own classes here
            self._give_up(f"the connection that listens was lost: {describe_exception(error)}", 1.0)
            return True  # something may have come before

    def close(self) -> None:
        if self._wrapper is not None:
            self._wrapper.close()
            self._wrapper = None

    def _begin(self) -> bool:
        if not (conf.NOTIFY and connections[self._alias].vendor == "postgresql"):
            self._retry_at = float("inf")
            return False
        try:
            self._wrapper = connections[self._alias].copy()
            self._wrapper.ensure_connection()
            with self._wrapper.cursor() as cursor:
                cursor.execute(f"LISTEN {CHANNEL}")
            if self._hears_itself():
                return True
            reason = "its own notification did not come back (a pooler in transaction mode?)"
        except Exception as error:  # noqa: BLE001 - psycopg2 has no notifies(); drivers' own errors
            reason = describe_exception(error)
        self._give_up(f"polling instead of listening: {reason}", self.RETRY)
        return False

    def _hears_itself(self) -> bool:
        token = secrets.token_hex(8)
        with connections[self._alias].cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, token])
        end = time.monotonic() + PROOF
        while (left := end - time.monotonic()) > 0:
            for notification in self._wrapper.connection.notifies(timeout=left, stop_after=1):
                if notification.payload == token:
                    return True
        return False

    def _give_up(self, reason: str, retry_in: float) -> None:
        logger.warning("%s", reason)
        self._retry_at = time.monotonic() + retry_in
        try:
            self.close()
        except Exception as error:  # noqa: BLE001 - it was broken before
            logger.debug("closing the broken connection: %s", error)
            self._wrapper = None
