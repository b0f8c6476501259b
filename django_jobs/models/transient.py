"""Errors of the database that pass by: which they are, and when the same is tried again.

Two kinds, decided here and nowhere else:

- The database undid a transaction since others were in its way (a deadlock, a lock that did not
  become free, a failed serialization). It left nothing: it is tried again at once, for a moment.
- The server or the line to it went away. Nobody knows what became of the transaction: only what
  has a receipt is tried again, the outcome of an attempt and the question whether a job was
  claimed, for as long as its caller has patience.

All else reaches whoever asked: an order (``create_job``) is never repeated behind its caller's
back. What looks at the table in a loop (drains, keepers, settlers, the broker) looks again later.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

from django.db import Error, InterfaceError, OperationalError, connections, transaction

from django_jobs.values import describe_exception

logger = logging.getLogger(__name__)
TRANSIENT = (OperationalError, InterfaceError)
WAIT = 0.5  # seconds between tries while the database is away
MOMENT = 2.0  # seconds in which what was undone is tried again
LOCK_WAITS = frozenset({"55P03", 1205})  # SQLSTATE of PostgreSQL, error number of MariaDB
DEADLOCKS = frozenset({"40001", "40P01", 1020, 1213})
Result = TypeVar("Result")


def is_lock_wait(error: BaseException) -> bool:
    """Say whether a statement gave up because somebody else holds a lock."""
    return _code(error) in LOCK_WAITS or "locked" in _text(error)


def was_undone(error: BaseException) -> bool:
    """Say whether the database has undone the transaction for certain: others were in its way."""
    return is_lock_wait(error) or _code(error) in DEADLOCKS


def in_transaction(alias: str, work: Callable[[], Result]) -> Result:
    """Run ``work`` in a transaction and return its result; again, if the database undid it.

    Inside a transaction of the caller's, it is that one which was undone: then the error is raised.
    """

    def once() -> Result:
        with transaction.atomic(using=alias):
            return work()

    return again_if_undone(alias, once)


def again_if_undone(
    alias: str, work: Callable[[], Result], *, seconds: float | None = None
) -> Result:
    """Run ``work``, which makes a transaction of its own; again, if the database undid it.

    For ``seconds``, by default a moment.
    """
    end = time.monotonic() + (MOMENT if seconds is None else seconds)
    while True:
        try:
            return work()
        except TRANSIENT as error:
            is_ours = not connections[alias].in_atomic_block
            if not (is_ours and was_undone(error)) or time.monotonic() > end:
                raise
            logger.warning("a transaction is tried again: %s", describe_exception(error))
            time.sleep(random.uniform(0.01, 0.1))  # noqa: S311 - so that two do not meet again


class Patience:
    """Waits for a database that is away, ``seconds`` at most. ``breaks`` counts lines that broke
    although the database is there."""

    def __init__(self, alias: str, seconds: float) -> None:
        self.breaks = 0
        self._alias = alias
        self._give_up_at = time.monotonic() + seconds

    def bear(self, error: Error, what: str) -> None:
        """Log that ``what`` waits, and wait a little; raise ``error`` once patience has run out."""
        left = self._give_up_at - time.monotonic()
        if left <= 0:
            logger.error("%s no longer: %s", what, describe_exception(error))
            raise error
        logger.warning("%s: %s", what, describe_exception(error))
        if self._reconnects_after_a_break():
            self.breaks += 1
        time.sleep(min(WAIT, left))

    def _reconnects_after_a_break(self) -> bool:
        """Drop the connection if it is broken; say whether it was, and a new one works."""
        connection = connections[self._alias]
        if connection.in_atomic_block or (connection.connection and connection.is_usable()):
            return False
        connection.close()
        try:
            connection.ensure_connection()
        except Error:
            return False
        return bool(connection.is_usable())


def _code(error: BaseException) -> Any:
    """Return PostgreSQL's SQLSTATE, or the number that MariaDB gives its errors."""
    sqlstate = getattr(error.__cause__ or error, "sqlstate", None)
    return sqlstate or (error.args[0] if error.args else None)


def _text(error: BaseException) -> str:
    return str(error.args[0]) if error.args else ""
