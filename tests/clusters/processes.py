"""Real django-q2 clusters as processes beside the test."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
from django.conf import settings
from django.db import connection, transaction

ROOT = Path(__file__).resolve().parents[2]
FAST = {"ENGINE": "django_q", "TICK": 0.5, "LEASE": 6, "GRACE": 1, "POLL": 0.5, "DRAIN": 2}


def wait_for(condition, seconds=30, what="the condition"):
    """Return the first true value of ``condition()``, or fail after ``seconds``."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come true within {seconds} s")
        time.sleep(0.02)


def freeze(pid):
    """Stop a process between its writes: frozen within one, it would hold SQLite's only lock."""
    with transaction.atomic():  # begins with that lock
        os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)


def environment(*, jobs=None, cluster=None, **more):
    """The environment of a process that works on the test's own database."""
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "TEST_CONNECT_TO": str(connection.settings_dict["NAME"]),
        "TEST_DJANGO_JOBS": json.dumps({**FAST, **(jobs or {})}),
        "TEST_Q_CLUSTER": json.dumps(cluster or {}),
        "PYTHONUNBUFFERED": "1",
        **more,
    }


class Cluster:
    """One ``manage.py qcluster``, or another command that runs one, in a process group of its own.

    Stopped, by force if need be, at the end of the ``with``.
    """

    def __init__(
        self,
        folder,
        *,
        workers=2,
        jobs=None,
        cluster=None,
        name="cluster",
        command=("qcluster",),
        **more,
    ):
        self.command = command
        self.log = Path(folder) / f"{name}.log"
        self.workers = workers
        self._environment = environment(
            jobs=jobs, cluster={"workers": workers, **(cluster or {})}, **more
        )
        self.process = None

    def __enter__(self):
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "django", *self.command],
                cwd=ROOT,
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_for(self.is_ready, what=f"the cluster of {self.log} is ready")
        return self

    def is_ready(self):
        assert self.process.poll() is None, self.output()
        has_pusher = "pushing tasks at" in self.output()
        return has_pusher and len(self.worker_pids()) >= self.workers

    def __exit__(self, *_):
        # children first: the sentinel would hang if a worker had died while it was idle
        everyone = [self.process.pid, *(child.pid for child in self.children())]
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.had_to_be_killed = True
        for pid in everyone:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(timeout=10)

    def output(self):
        return self.log.read_text()

    def children(self):
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self.process.pid).children(recursive=True)
        return []

    def process_named(self, said):
        """The last process that said so of itself: "monitoring", "pushing tasks"."""
        return int(re.findall(rf"{said} at (\d+)", self.output())[-1])

    def main_pid(self):
        """The main process of the newest cluster under a supervisor."""
        return int(re.findall(r"cluster (\d+) begins", self.output())[-1])

    def guard_pid(self):
        return psutil.Process(self.process_named("pushing tasks")).ppid()

    def worker_pids(self):
        """The processes that said they are ready for work and are still there."""
        said = [int(pid) for pid in re.findall(r"ready for work at (\d+)", self.output())]
        return [pid for pid in said if psutil.pid_exists(pid)]


def entries(path):
    """What handlers noted: (job id, attempt, pid, time) in order of entry."""
    if not Path(path).exists():
        return []
    lines = [line.split() for line in Path(path).read_text().splitlines()]
    return [(job, int(attempt), int(pid), float(at)) for job, attempt, pid, at in lines]


def is_sqlite():
    return settings.DATABASE == "sqlite"
