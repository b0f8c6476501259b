"""What is compared: our jobs, and plain django-q2 on its ORM broker, each in its own database."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WORKERS = 2
STOP_SECONDS = 30
Q_CLUSTER = {
    "name": "bench",
    "orm": "default",
    "workers": WORKERS,
    "timeout": 60,
    "retry": 120,
    "save_limit": 0,  # each result is kept, as each of our jobs is
    "log_level": "ERROR",  # no line per task
}
OURS = {**Q_CLUSTER, "broker_class": "django_jobs.broker.JobBroker", "queue_limit": WORKERS}


@dataclass
class Variant:
    """One set of settings, and the processes that run with it."""

    name: str
    database: dict[str, Any]
    q_cluster: dict[str, Any]
    django_jobs: dict[str, Any] = field(default_factory=dict)

    @property
    def is_ours(self) -> bool:
        return "broker_class" in self.q_cluster

    @property
    def environment(self) -> dict[str, str]:
        settings = {
            "is_ours": self.is_ours,
            "database": self.database,
            "q_cluster": self.q_cluster,
            "django_jobs": self.django_jobs,
        }
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "benchmarks.settings",
            "BENCH": json.dumps(settings),
        }

    def run(self, *command: str) -> str:
        """Run a Python module to its end, and return what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return done.stdout

    def migrate(self) -> None:
        self.run("django", "migrate", "--verbosity", "0")

    def drive(self, task: str, count: int) -> Any:
        """Let ``benchmarks.driver`` do something, and return its measurements."""
        return json.loads(self.run("benchmarks.driver", task, str(count)))


def ours(database: dict[str, Any], **django_jobs: Any) -> Variant:
    return Variant("django_jobs", database, OURS, django_jobs)


def plain(database: dict[str, Any]) -> Variant:
    return Variant("django-q2", database, Q_CLUSTER)


class Cluster:
    """A cluster of workers while the ``with`` lasts, warm: it has done some work already."""

    WARM_UP = 20

    def __init__(self, variant: Variant, command: str = "qcluster") -> None:
        self._variant = variant
        self._command = command
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __exit__

    def __enter__(self) -> Cluster:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "django", self._command],
            cwd=ROOT,
            env=self._variant.environment,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        try:
            self._variant.drive("idle", self.WARM_UP)
        except BaseException:
            self._stop()
            self._log.seek(0)
            sys.stderr.write(self._log.read().decode())
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._log.close()

    def pause(self) -> None:
        """Stop all its processes where they are."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.killpg(self._process.pid, signal.SIGCONT)

    def _stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.resume()
        self._process.terminate()
        try:
            self._process.wait(timeout=STOP_SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
