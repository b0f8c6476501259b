"""What befalls a database and the lines to it."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection, connections

from tests.servers import HOST, Server

#: The client connections of a server but one's own, as (id, database, is it kept waiting?).
SESSIONS = {
    "postgres": (
        "SELECT pid, datname, wait_event_type = 'Lock' FROM pg_stat_activity "
        "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    ),
    "mariadb": (
        "SELECT id, db, state LIKE 'Waiting for%' FROM information_schema.processlist "
        "WHERE id <> connection_id() AND user = 'root'"
    ),
}
KILL = {"postgres": "SELECT pg_terminate_backend({})", "mariadb": "KILL {}"}


def kill_sessions(server, *, only_waiting=False):
    """End the connections of all clients of ``server``; return how many.

    With ``only_waiting`` those that wait for a lock.
    """
    count = 0
    with contextlib.closing(server.connect()) as watcher, watcher.cursor() as cursor:
        cursor.execute(SESSIONS[settings.DATABASE])
        for session, _, is_waiting in cursor.fetchall():
            if only_waiting and not is_waiting:
                continue
            with contextlib.suppress(Exception):  # it has ended by itself
                cursor.execute(KILL[settings.DATABASE].format(session))
                count += 1
    return count


def restart(server, **options):
    """Restart the server under everybody's feet but ours."""
    connections.close_all()
    server.restart(**options)


def environment_of(url):
    """What sends a process to the server at ``url``."""
    return {{"postgres": "POSTGRES_URL", "mariadb": "MARIADB_URL"}[settings.DATABASE]: url}


def clock_shifted(seconds):
    """What sets the clock of a process that many seconds forward; not that of its waits."""
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
    assert library, "libfaketime is missing; on Debian: apt-get install faketime"
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME": f"{seconds:+}s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }


class PgBouncer(Server):
    """A pooler in transaction mode before a server: few sessions, of whoever needs one."""

    account = "postgres"
    POOL = 6

    def __init__(self, server):
        super().__init__()
        self._server = server

    @property
    def url(self):
        return f"postgres://{self._server.superuser}@{HOST}:{self.port}/postgres"

    def initialise(self):
        target = f"host={HOST} port={self._server.port} user={self._server.superuser}"
        (self.folder / "pgbouncer.ini").write_text(
            f"[databases]\n* = {target}\n"
            f"[pgbouncer]\nlisten_addr = {HOST}\nlisten_port = {self.port}\n"
            f"unix_socket_dir =\nauth_type = any\npool_mode = transaction\n"
            f"default_pool_size = {self.POOL}\nmax_client_conn = 200\n"
        )

    def command(self):
        binary = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
        assert binary, "PgBouncer is missing; on Debian: apt-get install pgbouncer"
        return [binary, self.folder / "pgbouncer.ini"]

    def answers(self):
        import psycopg

        try:
            psycopg.connect(self.url, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True


@contextlib.contextmanager
def small_disk(megabytes):
    """A file system of that size, in memory; gives its folder. Only root may mount it."""
    folder = Path(tempfile.mkdtemp(prefix="django_jobs_disk_"))
    size = f"size={megabytes}m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
        folder.rmdir()


@contextlib.contextmanager
def database_in(folder):
    """Let this test and its processes use a copy of the SQLite database in ``folder``."""
    connection.ensure_connection()
    settings_dict = connection.settings_dict
    place = folder / "jobs.sqlite3"
    connection.cursor().execute("VACUUM INTO %s", [str(place)])
    connection.close()
    usual = settings_dict["NAME"]
    settings_dict["NAME"] = str(place)
    try:
        yield
    finally:
        connection.close()
        settings_dict["NAME"] = usual


def fill(folder):
    """Leave not a byte in the file system of ``folder``; return the file that takes the place."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        for size in (65536, 4096, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * size)
    return filler


def only_on(*databases):
    """Mark a test that is about some databases only."""
    reason = f"it is about {' and '.join(databases)}"
    return pytest.mark.skipif(settings.DATABASE not in databases, reason=reason)
