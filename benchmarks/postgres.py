"""A PostgreSQL server of our own, for as long as the ``with`` lasts: durable, on no network."""

from __future__ import annotations

from typing import Any

import psycopg

from tests.servers import PostgresServer

WATCHER = "watcher"  # the superuser; what it sends is not counted
APP = "app"  # what is measured
OPTIONS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "listen_addresses": "",
    "shared_preload_libraries": "pg_stat_statements",
    "max_connections": "60",
}
#: Every statement that the app sent to a database: not transaction control, nor the server's own
#: look-ups of foreign keys, which it counts as well.
_STATEMENTS = """
    SELECT coalesce(sum(calls), 0)
    FROM pg_stat_statements
    JOIN pg_roles ON pg_roles.oid = userid
    JOIN pg_database ON pg_database.oid = dbid
    WHERE rolname = %s AND datname = %s
      AND query !~* '^\\s*(begin|commit|rollback|savepoint|release|set)\\y'
      AND query NOT LIKE 'SELECT %% FROM ONLY %% FOR KEY SHARE OF x'
"""


class Postgres(PostgresServer):
    superuser = WATCHER

    def __init__(self) -> None:
        super().__init__(**OPTIONS)

    def __enter__(self) -> Postgres:
        super().__enter__()
        self._watcher = self.watch("postgres")
        self.execute("CREATE EXTENSION pg_stat_statements")
        self.execute(f"CREATE ROLE {APP} LOGIN CREATEDB")
        return self

    @property
    def version(self) -> str:
        return str(self.value("SHOW server_version")).split()[0]

    def create_database(self, name: str) -> dict[str, Any]:
        """Make a database of the app's, and return Django's settings for it."""
        self.execute(f"CREATE DATABASE {name} OWNER {APP}")
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": name,
            "USER": APP,
            "HOST": str(self.folder),
            "PORT": str(self.port),
            "CONN_MAX_AGE": 600,
        }

    def watch(self, database: str) -> psycopg.Connection[Any]:
        """Return a connection that looks on, uncounted."""
        connection: psycopg.Connection[Any] = self.connect(database)
        return connection

    def execute(self, statement: str) -> None:
        self._watcher.execute(statement)  # type: ignore[call-overload]

    def value(self, statement: str, *parameters: Any) -> Any:
        row = self._watcher.execute(statement, parameters).fetchone()  # type: ignore[call-overload]
        return row[0]

    def statements(self, database: str) -> int:
        return int(self.value(_STATEMENTS, APP, database))

    def write_transactions(self) -> int:
        """Return a counter of the transactions that wrote: only those are given a number."""
        return int(self.value("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"))
