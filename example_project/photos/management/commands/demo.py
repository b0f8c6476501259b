"""``manage.py demo``: one real job, run by a real cluster and watched from outside."""

import signal
import sys
import time
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser
from django.core.files.storage import storages
from django.core.management.base import BaseCommand, CommandError
from PIL import Image
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from django_jobs.models import Asset, Job, JobStatus
from django_jobs.services import create_job
from django_jobs.states import is_terminal_state
from example_project.photos.management.cluster import Cluster, ClusterError

JOB_TYPE = "thumbnails"
PARAMETERS = {"size": 320}
POLL_SECONDS = 0.02  # the whole job takes about a second
PATIENCE_SECONDS = 60
INTERRUPTED = 128 + signal.SIGINT
PLAIN_WIDTH = 120  # characters, where the output is no terminal
GOOD_OUTCOMES = (JobStatus.COMPLETED, JobStatus.PARTIAL)


class Command(BaseCommand):
    help = "Start a cluster, let it make thumbnails in a job, show what became of it, stop it."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.ending = ""  # rich ends its lines itself
        self.console = Console(
            file=self.stdout,
            width=None if self.stdout.isatty() else PLAIN_WIDTH,
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        signal.signal(signal.SIGTERM, _stop)
        job = self._run_in_a_cluster()
        self._show_outcome(job)
        self._show_transitions(job)
        self._show_assets(job)
        self.console.print(
            f"demo: {job.job_type} {job.status.upper()}"
            f" {job.items_succeeded} ok {job.items_failed} failed"
        )
        if job.status not in GOOD_OUTCOMES:
            raise CommandError(f"The job ended {job.status}.")

    def _run_in_a_cluster(self) -> Job:
        try:
            with Cluster() as cluster:
                self.console.print(f"cluster {cluster.pid} is ready, its log is {cluster.log}")
                job = self._watch(create_job(_demo_user(), JOB_TYPE, PARAMETERS).pk)
        except ClusterError as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            raise CommandError("Interrupted.", returncode=INTERRUPTED) from None
        self.console.print(f"cluster {cluster.pid} has stopped in order")
        return job

    def _watch(self, job_id: UUID) -> Job:
        """Show the progress of the job, read from its row, until it has reached its outcome."""
        self.console.print(f"job {job_id}")
        deadline = time.monotonic() + PATIENCE_SECONDS
        with self._progress_bar() as bar:
            line = bar.add_task(JOB_TYPE, total=100, message="")
            job = Job.objects.get(pk=job_id)
            while not is_terminal_state(job.status):
                if time.monotonic() > deadline:
                    raise CommandError(f"The job is {job.status} after {PATIENCE_SECONDS} s.")
                time.sleep(POLL_SECONDS)
                seen, job = job, Job.objects.get(pk=job_id)
                if _visible(job) != _visible(seen):
                    self._show_progress(bar, line, job)
        return job

    def _show_progress(self, bar: Progress, line: TaskID, job: Job) -> None:
        if bar.disable:
            self.console.print(f"{job.progress:3} % {job.progress_message}".rstrip())
        bar.update(line, completed=job.progress, message=job.progress_message, refresh=True)

    def _progress_bar(self) -> Progress:
        return Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} % {task.fields[message]}"),
            TimeElapsedColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )

    def _show_outcome(self, job: Job) -> None:
        self.console.print(f"outcome: {job.status}, progress {job.progress} %")
        self.console.print(
            f"items: {job.items_total} in all,"
            f" {job.items_succeeded} succeeded, {job.items_failed} failed"
        )
        if job.error_message:
            self.console.print(f"error: {job.error_message}")

    def _show_transitions(self, job: Job) -> None:
        table = Table(title="Log", title_justify="left", box=SIMPLE_HEAD)
        for heading in ("time", "from", "to", "by", "message"):
            table.add_column(heading, overflow="fold")
        for step in job.transitions.order_by("id"):
            table.add_row(
                f"{step.created_at:%H:%M:%S.%f}"[:-3],
                step.from_status or "-",
                step.to_status,
                str(step.actor or step.worker or "-"),
                step.message,
            )
        self.console.print(table)

    def _show_assets(self, job: Job) -> None:
        self.console.print("assets:")
        for asset in job.assets.order_by("name"):
            width, height = _picture_size(asset)
            path = storages[asset.storage].path(asset.storage_path)
            self.console.print(f"  {path} ({width} x {height}, {asset.file_size} bytes)")


def _demo_user() -> AbstractUser:
    users = get_user_model()._default_manager
    user, created = users.get_or_create(username="demo")
    if created:
        user.set_unusable_password()
        user.save()
    return user


def _stop(_number: int, _frame: Any) -> None:
    sys.exit(128 + signal.SIGTERM)  # an exception: the cluster is stopped on the way out


def _visible(job: Job) -> tuple[int, str]:
    return job.progress, job.progress_message


def _picture_size(asset: Asset) -> tuple[int, int]:
    """Decode the whole picture behind ``asset``; return its width and height in pixels."""
    with storages[asset.storage].open(asset.storage_path) as file, Image.open(file) as image:
        image.load()
        return image.size
