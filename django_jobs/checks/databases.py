"""Checks of the database that holds the jobs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from django.core import checks
from django.db import connections

from django_jobs.checks.clusters import job_clusters
from django_jobs.checks.settings import runs_workers
from django_jobs.models import clock

BUSY_TIMEOUT = 20  # seconds that a writer on SQLite should be ready to wait for its turn
_WAL_HINT = (
    'Readers and the writer hold each other up otherwise. Set OPTIONS["init_command"] to '
    '"PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;".'
)


def check_database_settings(**_: Any) -> list[checks.CheckMessage]:
    """Look at the settings only; connect to nothing."""
    if not runs_workers():
        return []
    return [*_short_connections(), *_sqlite_options()]


def check_journal_mode(
    databases: Collection[str] | None = None, **_: Any
) -> list[checks.CheckMessage]:
    """Ask SQLite itself, where the settings ask for WAL: not every file system can do it."""
    alias = clock.alias_for_write()
    if alias not in (databases or ()) or not runs_workers() or not _is_sqlite_file(alias):
        return []
    with connections[alias].cursor() as cursor:
        cursor.execute("PRAGMA journal_mode")
        (mode,) = cursor.fetchone()
    if mode == "wal" or not _asks_for_wal(alias):
        return []
    return [
        checks.Warning(
            f"The database {alias!r} is in the journal mode {mode}, although WAL is asked for.",
            hint="Keep the file on a local disk: WAL does not work on network file systems.",
            id="django_jobs.W009",
        )
    ]


def _short_connections() -> Iterator[checks.CheckMessage]:
    aliases = {clock.alias_for_write(), *(c.get("orm") for c in job_clusters().values())}
    for alias in sorted(alias for alias in aliases if alias in connections.settings):
        options = connections[alias].settings_dict
        if options["CONN_MAX_AGE"] == 0 and not options["OPTIONS"].get("pool"):
            yield checks.Warning(
                f"The database {alias!r} has a CONN_MAX_AGE of 0.",
                hint="django-q2 then connects anew for each task and each look at the queue, and "
                "gets through a tenth of the work. Set it to 60, with CONN_HEALTH_CHECKS.",
                id="django_jobs.W005",
            )


def _sqlite_options() -> Iterator[checks.CheckMessage]:
    alias = clock.alias_for_write()
    if not _is_sqlite_file(alias):
        return
    options = _options(alias)
    if str(options.get("transaction_mode")).upper() != "IMMEDIATE":
        yield checks.Warning(
            f"Transactions on the SQLite database {alias!r} are not IMMEDIATE.",
            hint="One that reads before it writes fails with 'database is locked' while others "
            'write, without waiting. Set OPTIONS["transaction_mode"] to "IMMEDIATE".',
            id="django_jobs.W006",
        )
    if options.get("timeout", 5) < BUSY_TIMEOUT:
        yield checks.Warning(
            f"Writers on the SQLite database {alias!r} wait less than {BUSY_TIMEOUT} s.",
            hint=f'SQLite has one writer at a time. Set OPTIONS["timeout"] to {BUSY_TIMEOUT}.',
            id="django_jobs.W007",
        )
    if not _asks_for_wal(alias):
        yield checks.Warning(
            f"The SQLite database {alias!r} is not asked to use a write-ahead log (WAL).",
            hint=_WAL_HINT,
            id="django_jobs.W008",
        )


def _is_sqlite_file(alias: str) -> bool:
    connection: Any = connections[alias]
    return connection.vendor == "sqlite" and not connection.is_in_memory_db()


def _asks_for_wal(alias: str) -> bool:
    command = "".join(str(_options(alias).get("init_command", "")).lower().split())
    return "journal_mode=wal" in command or "journal_mode(wal)" in command


def _options(alias: str) -> dict[str, Any]:
    options: dict[str, Any] = connections[alias].settings_dict["OPTIONS"]
    return options
