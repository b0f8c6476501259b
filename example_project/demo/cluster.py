"""A cluster of the example project as a process beside this one."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType, TracebackType

from django.conf import settings

START_SECONDS = 30
STOP_SECONDS = 20


def exit_on_signals() -> None:
    """Let SIGTERM and a closed terminal raise, so that a ``with`` stops its cluster on the way."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _exit)


class ClusterError(Exception):
    """The cluster did not start or stop as it should."""


class Cluster:
    """``manage.py jobworker`` while the ``with`` lasts, in a session of its own.

    Ctrl-C on the terminal does not reach it; it is always stopped at the end of the ``with``. Its
    log stays if it did not stop well.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="django_jobs_demo_"))
        self.log = self._folder / "cluster.log"
        self._workers: int = settings.Q_CLUSTER["workers"]

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> "Cluster":
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "django", "jobworker"],
                cwd=settings.BASE_DIR,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            self._wait_until_ready()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        code = self._stop()
        if error is None and code != 0:
            raise ClusterError(f"The cluster stopped with the exit code {code}: see {self.log}.")
        shutil.rmtree(self._folder)

    def _wait_until_ready(self) -> None:
        end = time.monotonic() + START_SECONDS
        while not self._is_ready():
            if self._process.poll() is not None:
                raise ClusterError(f"The cluster did not start:\n{self.log.read_text()}")
            if time.monotonic() > end:
                raise ClusterError(f"The cluster is not ready after {START_SECONDS} s.")
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        said = self.log.read_text()
        workers = re.findall(r"ready for work at \d+", said)
        return "pushing tasks at" in said and len(workers) >= self._workers

    def _stop(self) -> int | None:
        """Ask the cluster to stop, wait for it, and return its exit code; ``None`` if it hangs."""
        self._process.terminate()  # its main process only: that one stops the others in order
        try:
            return self._process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):  # usually, nobody is left
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def _exit(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)
