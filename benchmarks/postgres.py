"""A PostgreSQL server of our own, for as long as the ``with`` lasts: durable, on no network."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

WATCHER = "watcher"  # the superuser; what it sends is not counted
APP = "app"  # what is measured
START_SECONDS = 30
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


class Postgres:
    """Binaries refuse to run as root: then the server runs as the system's user postgres."""

    def __init__(self) -> None:
        self._bin = _binaries()
        self._folder = Path(tempfile.mkdtemp(prefix="django_jobs_bench_"))
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user:
            account = pwd.getpwnam(self._user)
            os.chown(self._folder, account.pw_uid, account.pw_gid)

    def __enter__(self) -> Postgres:
        data = str(self._folder / "data")
        self._run("initdb", "-D", data, "-U", WATCHER, "-A", "trust", "-E", "UTF8", "--no-locale")
        options = [f"-c{name}={value}" for name, value in OPTIONS.items()]
        with (self._folder / "log").open("w") as log:
            self._process = subprocess.Popen(
                [self._bin / "postgres", "-D", data, "-k", self._folder, *options],
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._identity,
            )
        try:
            self._watcher = self._connect_when_ready()
        except BaseException:
            self.__exit__()
            raise
        self.execute("CREATE EXTENSION pg_stat_statements")
        self.execute(f"CREATE ROLE {APP} LOGIN CREATEDB")
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)  # a fast shutdown
        self._process.wait(timeout=60)
        shutil.rmtree(self._folder, ignore_errors=True)

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
            "HOST": str(self._folder),
            "CONN_MAX_AGE": 600,
        }

    def watch(self, database: str) -> psycopg.Connection[Any]:
        """Return a connection that looks on, uncounted."""
        return psycopg.connect(
            host=str(self._folder), user=WATCHER, dbname=database, autocommit=True
        )

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

    @property
    def _identity(self) -> dict[str, Any]:
        if not self._user:
            return {}
        return {"user": self._user, "group": self._user, "extra_groups": [], "cwd": "/"}

    def _run(self, name: str, *arguments: str) -> None:
        command = [self._bin / name, *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **self._identity)

    def _connect_when_ready(self) -> psycopg.Connection[Any]:
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                return self.watch("postgres")
            except psycopg.OperationalError:
                if time.monotonic() > end or self._process.poll() is not None:
                    raise
            time.sleep(0.1)


def _binaries() -> Path:
    """Return the folder of the newest server that is installed."""
    debian = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name)
    )
    found = shutil.which("postgres")
    if not debian and not found:
        raise SystemExit("PostgreSQL's server is missing; on Debian: apt-get install postgresql")
    return debian[-1] if debian else Path(str(found)).parent
