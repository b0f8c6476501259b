"""``manage.py jobworker``: run a cluster in the foreground and see that it lives."""

from __future__ import annotations

import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import autoreload

from django_jobs.conf import conf
from django_jobs.supervisor import NoJobCluster, Supervisor


class Command(BaseCommand):
    help = (
        "Runs jobs (and django-q2's own tasks and schedules) until SIGTERM or Ctrl-C. Running jobs "
        "then have SHUTDOWN_GRACE seconds; what still runs is put back or fails as 'shutdown'."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--queue",
            action="append",
            default=[],
            metavar="NAME",
            help="Serve this queue only; may be given several times. Default: the setting QUEUES.",
        )
        parser.add_argument(
            "--workers",
            type=_positive,
            metavar="N",
            help="How many worker processes. Default: Q_CLUSTER['workers'].",
        )
        parser.add_argument(
            "--reload",
            action="store_true",
            help="Begin anew when a Python file changes; for development.",
        )

    def handle(self, *, queue: list[str], workers: int | None, reload: bool, **_: Any) -> None:
        if queue:
            os.environ["DJANGO_JOBS_QUEUES"] = ",".join(queue)
        change = Change() if reload else None
        if change is not None:
            change()
            self.stdout.write(f"jobworker watches {len(change)} files")
        try:
            supervisor = Supervisor(self.stdout.write, workers=workers, has_changed=change)
        except NoJobCluster as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"jobworker {os.getpid()} serves the queues: {', '.join(conf.queues)}")
        has_stopped_in_order = supervisor.run()
        if change is not None and change.path:
            self.stdout.write(f"{change.path} has changed: beginning anew")
            self.stdout.flush()
            os.execv(sys.executable, autoreload.get_child_arguments())  # noqa: S606 - itself
        if not has_stopped_in_order:
            raise CommandError("Some processes did not stop in time and were killed.")
        self.stdout.write("jobworker has stopped in order")


class Change:
    """Whether a file of the program has changed since the first call."""

    def __init__(self) -> None:
        self._times: dict[Any, float] = {}
        self.path = ""

    def __len__(self) -> int:
        return len(self._times)

    def __call__(self) -> bool:
        times = dict(autoreload.StatReloader().snapshot_files())
        for path, time in times.items():
            if self._times and self._times.get(path, time) != time:
                self.path = str(path)
        self._times = self._times or times
        return bool(self.path)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number
