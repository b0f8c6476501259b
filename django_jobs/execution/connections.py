"""What a handler may have done to the database connections, found and put right."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any

from django.db import Error, connections, transaction

from django_jobs.conf import conf

ACTIVE, INTRANS, INERROR = 1, 2, 3  # libpq: PGTransactionStatusType


class ConnectionWatch:
    """Remembers the transactions that are open before a handler runs, and restores that afterwards.

    Where one is open already (in a test), the handler runs behind a savepoint, so that an error in
    the database does not spoil what is around it.
    """

    def __init__(self, alias: str) -> None:
        self._depths = {c.alias: len(c.atomic_blocks) for c in _open_connections()}
        self._outer = connections[alias] if connections[alias].in_atomic_block else None
        self._savepoint = self._outer.savepoint() if self._outer else None

    def left_open(self) -> str:
        """Return the alias of a connection on which a transaction was left open, or ''."""
        return next((c.alias for c in _open_connections() if self._is_open(c)), "")

    def restore(self) -> None:
        """Roll back what was left open; drop connections that cannot be used."""
        for connection in _open_connections():
            self._unwind(connection)
            if not connection.in_atomic_block:
                _roll_back_by_hand(connection)
                connection.close_if_unusable_or_obsolete()
        if self._outer and self._savepoint:
            _leave_savepoint(self._outer, self._savepoint)

    def _is_open(self, connection: Any) -> bool:
        if len(connection.atomic_blocks) > self._depths.get(connection.alias, 0):
            return True
        try:
            return not connection.in_atomic_block and _is_in_transaction(connection)
        except Exception:  # noqa: BLE001 - drivers raise what they like; what is gone is not open
            return False

    def _unwind(self, connection: Any) -> None:
        error = RuntimeError("a transaction was left open by a handler")
        while len(connection.atomic_blocks) > self._depths.get(connection.alias, 0):
            block = connection.atomic_blocks[-1]
            try:
                block.__exit__(RuntimeError, error, _no_traceback())
            except Error:  # the connection is gone; so is the transaction
                _drop(connection)


def be_brisk(alias: str) -> None:
    """Give this thread's connection timeouts for a black-holed network: below one tick."""
    connection = connections[alias]
    seconds = max(1, round(conf.io_timeout))
    options: dict[str, dict[str, Any]] = {
        "postgresql": {"connect_timeout": seconds, "tcp_user_timeout": seconds * 1000},
        "mysql": {
            "connect_timeout": seconds,
            "read_timeout": seconds + 1,
            "write_timeout": seconds + 1,
        },
        "sqlite": {"timeout": conf.io_timeout},
    }
    given = connection.settings_dict.get("OPTIONS", {})
    brisk = {**given, **options.get(connection.vendor, {})}
    connection.settings_dict = {**connection.settings_dict, "OPTIONS": brisk}


@contextmanager
def brief(alias: str) -> Iterator[None]:
    """A transaction that gives up on locks in less than a tick, on a connection that is brisk.

    On PostgreSQL the limits are the transaction's own, so that a pooler cannot hand them to others.
    """
    connection = connections[alias]
    milliseconds = int(conf.io_timeout * 1000)
    with transaction.atomic(using=alias):
        if connection.vendor == "postgresql":
            _execute(
                connection,
                f"SET LOCAL lock_timeout = {milliseconds}; "
                f"SET LOCAL statement_timeout = {milliseconds * 2}",
            )
        elif connection.vendor == "mysql":
            seconds = max(1, milliseconds // 1000)
            _execute(connection, f"SET SESSION innodb_lock_wait_timeout = {seconds}")
        yield


def _execute(connection: Any, statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def _open_connections() -> list[Any]:
    return [c for c in connections.all(initialized_only=True) if c.connection is not None]


def _is_in_transaction(connection: Any) -> bool:
    """Ask the driver: a handler may have opened a transaction behind Django's back."""
    raw = connection.connection
    if not connection.autocommit:
        return True
    if connection.vendor == "sqlite":
        return bool(raw.in_transaction)
    if connection.vendor == "mysql" and connection.mysql_is_mariadb:
        with raw.cursor() as cursor:  # its driver does not tell
            cursor.execute("SELECT @@in_transaction")
            return bool(cursor.fetchone()[0])
    return _postgresql_status(connection) in (INTRANS, INERROR)


def _postgresql_status(connection: Any) -> int:
    """Return libpq's PQtransactionStatus, or -1."""
    raw = connection.connection
    if connection.vendor != "postgresql" or raw.closed:
        return -1
    return int(getattr(raw.info, "transaction_status", -1))


def _roll_back_by_hand(connection: Any) -> None:
    try:
        if connection.vendor == "postgresql" and connection.connection.closed:
            _drop(connection)
            return
        if _postgresql_status(connection) == ACTIVE:  # the handler was interrupted in a query
            connection.connection.cancel()
            _drop(connection)
            return
        if _is_in_transaction(connection):
            connection.connection.rollback()
        if not connection.autocommit:
            connection.set_autocommit(True)
    except Exception:  # noqa: BLE001 - drivers raise what they like here; the connection is of no use any more
        _drop(connection)


def _drop(connection: Any) -> None:
    with suppress(Exception):  # mysqlclient does not close what is closed already
        connection.close()


def _leave_savepoint(connection: Any, savepoint: str) -> None:
    if not connection.needs_rollback:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
            connection.savepoint_commit(savepoint)
        except Error:
            connection.needs_rollback = True
        else:
            return
    connection.needs_rollback = False
    connection.savepoint_rollback(savepoint)


def _no_traceback() -> TracebackType | None:
    return None
