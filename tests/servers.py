"""Database servers of our own, for as long as a ``with`` lasts: to be stopped and started again."""

import contextlib
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

SECONDS_TO_START = 30
SECONDS_TO_STOP = 60
HOST = "127.0.0.1"


def free_port():
    """Return a port that stays free while its server is down: nobody is given it by chance."""
    while True:
        port = random.randrange(20_000, 32_000)  # below what systems hand out
        with contextlib.suppress(OSError), socket.create_server((HOST, port)):
            return port


class Server:
    """A server process with a folder of its own, reached through a port of the loopback address.

    Servers refuse to run as root: then they run as the system's user ``account``.
    """

    host = HOST
    account = ""
    superuser = ""
    orderly = signal.SIGTERM
    crash = signal.SIGKILL

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="django_jobs_server_"))
        self.port = free_port()
        self._process = None
        self._identity = {}
        if os.geteuid() == 0:
            account = pwd.getpwnam(self.account)
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self._identity = {
                "user": self.account,
                "group": account.pw_gid,
                "extra_groups": [],
                "cwd": "/",
            }

    def __enter__(self):
        try:
            self.initialise()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self._process is not None and self._process.poll() is None:
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, **environment):
        """Start it and return when it answers. ``environment`` holds for this start."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **environment},
                **self._identity,
            )
        end = time.monotonic() + SECONDS_TO_START
        while not self.answers():
            if time.monotonic() > end or self._process.poll() is not None:
                raise RuntimeError(f"it does not start: {self.log()[-2000:]}")
            time.sleep(0.05)

    def stop(self, number=None):
        """End it, by default in order, and return when it is gone."""
        self._process.send_signal(self.orderly if number is None else number)
        self._process.wait(timeout=SECONDS_TO_STOP)

    def restart(self, *, crashes=False, **environment):
        self.stop(self.crash if crashes else None)
        self.start(**environment)

    def log(self):
        return (self.folder / "log").read_text()

    def run(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, **self._identity)
        if done.returncode:
            raise RuntimeError(f"{command[0]}: {done.stdout}{done.stderr}")

    def initialise(self):
        raise NotImplementedError

    def command(self):
        raise NotImplementedError

    def answers(self):
        raise NotImplementedError


class PostgresServer(Server):
    account = "postgres"
    orderly = signal.SIGINT  # a fast shutdown: it waits for nobody
    crash = signal.SIGQUIT  # as after a crash, but its children end as well
    superuser = "postgres"

    def __init__(self, **options):
        super().__init__()
        self._options = {"listen_addresses": HOST, "max_connections": "100", **options}
        self._bin = _postgres_binaries()

    @property
    def url(self):
        return f"postgres://{self.superuser}@{HOST}:{self.port}/postgres"

    def initialise(self):
        self.run(
            *[self._bin / "initdb", "-D", self.folder / "data", "-U", self.superuser],
            *["-A", "trust", "-E", "UTF8", "--no-locale"],
        )

    def command(self):
        options = [f"-c{name}={value}" for name, value in self._options.items()]
        place = ["-D", self.folder / "data", "-k", self.folder, "-p", str(self.port)]
        return [self._bin / "postgres", *place, *options]

    def answers(self):
        import psycopg

        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def connect(self, database="postgres"):
        """Return a connection of the superuser's, through the server's socket."""
        import psycopg

        return psycopg.connect(
            host=str(self.folder),
            port=self.port,
            user=self.superuser,
            dbname=database,
            autocommit=True,
        )


class MariaDBServer(Server):
    account = "mysql"
    superuser = "root"

    @property
    def url(self):
        return f"mysql://{self.superuser}@{HOST}:{self.port}/test"

    def initialise(self):
        self.run(
            *["mariadb-install-db", "--no-defaults", f"--datadir={self.folder / 'data'}"],
            *["--auth-root-authentication-method=normal", "--skip-name-resolve"],
        )

    def command(self):
        return [
            *[_mariadb_binary(), "--no-defaults", f"--datadir={self.folder / 'data'}"],
            *[f"--socket={self.folder / 'socket'}", f"--bind-address={HOST}"],
            *[f"--port={self.port}", "--innodb-buffer-pool-size=64M"],
        ]

    def answers(self):
        import MySQLdb

        try:
            self.connect().close()
        except MySQLdb.OperationalError:
            return False
        return True

    def connect(self):
        import MySQLdb

        return MySQLdb.connect(unix_socket=str(self.folder / "socket"), user="root")


def _postgres_binaries():
    """Return the folder of the newest server that is installed."""
    debian = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name)
    )
    found = shutil.which("postgres")
    if not debian and not found:
        raise RuntimeError("PostgreSQL's server is missing; on Debian: apt-get install postgresql")
    return debian[-1] if debian else Path(found).parent


def _mariadb_binary():
    found = shutil.which("mariadbd") or shutil.which("/usr/sbin/mariadbd")
    if not found:
        raise RuntimeError("MariaDB's server is missing; on Debian: apt-get install mariadb-server")
    return found
