"""One cluster after the other: the processes of each, and how they are brought to their end."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass, field

from django_jobs.conf import conf

MARGIN = 5.0  # seconds that a cluster may take to stop beyond what its jobs may
LAST_BEGINNING = 4.0  # seconds after a stop in which a worker may yet take up a job


@dataclass
class Generation:
    """One cluster: its main process and the process group of all its processes."""

    main: int
    started_at: float = field(default_factory=time.monotonic)
    killed_at: float | None = None  # when what is left of it is to be killed
    ended_at: float | None = None  # when its main process did
    told_at: float | None = None  # when it was asked to stop

    @property
    def has_main(self) -> bool:
        return self.ended_at is None

    @property
    def is_alive(self) -> bool:
        try:
            os.killpg(self.main, 0)
        except ProcessLookupError:
            return False
        return True

    def stop(self) -> None:
        """Ask it to stop, and set the time at which it must have."""
        self.told_at = self.told_at or time.monotonic()
        if self.has_main:
            _signal(self.main, signal.SIGTERM)
        self.wind_up()

    def wind_up(self) -> None:
        if self.killed_at is None:
            self.killed_at = time.monotonic() + conf.SHUTDOWN_GRACE + conf.GRACE + MARGIN

    @property
    def is_late(self) -> bool:
        return self.killed_at is not None and time.monotonic() >= self.killed_at

    @property
    def takes_up_nothing(self) -> bool:
        """Whether it has ended or was told to so long ago that its workers begin nothing more."""
        moments = [at for at in (self.ended_at, self.told_at) if at is not None]
        return bool(moments) and time.monotonic() - min(moments) >= LAST_BEGINNING

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.main, signal.SIGKILL)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
