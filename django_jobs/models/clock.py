"""The database's clock: the one time that all hosts agree on.

``now()`` is this host's time plus the offset of the database server's UTC clock, measured when a
connection is first used and again each minute (the last known one holds while it cannot be). It
goes into statements as a parameter: Django's ``Now()`` is the session zone's time on MariaDB and
UTC on SQLite, wrong by hours with USE_TZ=False.
"""

from __future__ import annotations

import datetime as dt
import time
from typing import Any

from django.apps import apps
from django.db import Error, connections, router
from django.utils import timezone

MEASURED_FOR = 60.0  # seconds
PROMPT = 0.05  # seconds
_EPOCH_MICROSECONDS = {
    "postgresql": "SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::bigint",
    "mysql": "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
}
_ATTRIBUTE = "_django_jobs_clock"  # (raw connection, measured at, offset), on Django's wrapper


def alias_for_write(using: str | None = None) -> str:
    """Return ``using``, or the alias of the database that jobs are written to."""
    return using or router.db_for_write(apps.get_model("django_jobs", "Job"))


def now(using: str | None = None) -> dt.datetime:
    """Return the time of the database that jobs are written to, aware if USE_TZ."""
    return timezone.now() + offset(alias_for_write(using))


def offset(alias: str) -> dt.timedelta:
    """Return how far the database's clock is ahead of this host's."""
    connection = connections[alias]
    if connection.vendor not in _EPOCH_MICROSECONDS:
        return dt.timedelta(0)  # SQLite has this host's clock
    raw, measured_at, known = getattr(connection, _ATTRIBUTE, (None, 0.0, None))
    is_fresh = raw is connection.connection and time.monotonic() - measured_at < MEASURED_FOR
    if known is not None and (is_fresh or connection.needs_rollback):
        return dt.timedelta(microseconds=known)
    try:
        known = _measure(connection)
    except Error:  # what cannot be asked now is told when it writes: an outcome must wait till then
        if known is None:
            raise
    return dt.timedelta(microseconds=known)


def _measure(connection: Any) -> int:
    """Ask until the answer comes promptly, thrice at most: half its way is the possible error."""
    way, measured = _ask(connection)
    for _ in range(2):
        if way <= PROMPT:
            break
        way, measured = min((way, measured), _ask(connection))
    setattr(connection, _ATTRIBUTE, (connection.connection, time.monotonic(), measured))
    return measured


def _ask(connection: Any) -> tuple[float, int]:
    """Return how long the database took to tell its time (seconds), and the offset (µs)."""
    with connection.cursor() as cursor:
        before = time.time_ns()
        cursor.execute(_EPOCH_MICROSECONDS[connection.vendor])
        (theirs,) = cursor.fetchone()
        after = time.time_ns()
    return (after - before) / 1e9, int(theirs) - (before + after) // 2000
