"""Holding up what others write."""

import sqlite3
from contextlib import closing, contextmanager

from django.db import connection, transaction

from django_jobs.models import JobTransition

_LOG = JobTransition._meta.db_table


@contextmanager
def log_locked():
    """Let nobody else write to the log; gives a function that says if somebody waits for that."""
    lock = {"postgresql": _postgresql, "mysql": _mariadb, "sqlite": _sqlite}[connection.vendor]
    with lock() as is_waited_for:
        yield is_waited_for


@contextmanager
def _postgresql():
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {_LOG} IN SHARE MODE")
        yield lambda: _is_any(
            cursor,
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = %s::regclass "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
            [_LOG],
        )


@contextmanager
def _mariadb():
    with connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLES {_LOG} READ")
        try:
            yield lambda: _is_any(
                cursor,
                "SELECT count(*) FROM information_schema.processlist "
                "WHERE db = database() AND state LIKE 'Waiting for table%%'",
                [],
            )
        finally:
            cursor.execute("UNLOCK TABLES")


@contextmanager
def _sqlite():
    """The one writer of the database. Who waits for it cannot be asked: say yes."""
    with writer_lock():
        yield lambda: True


@contextmanager
def writer_lock():
    """Be the one writer of the SQLite database, on a connection of its own."""
    name = connection.settings_dict["NAME"]
    with closing(sqlite3.connect(name, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.rollback()


def _is_any(cursor, query, arguments):
    cursor.execute(query, arguments)
    return cursor.fetchone()[0] > 0
