"""Showing a job while it runs, and what became of it."""

import time
from uuid import UUID

from django.core.files.storage import storages
from django.core.management.base import CommandError
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from django_jobs.models import Job
from django_jobs.states import is_terminal_state

POLL_SECONDS = 0.02  # a whole job takes about a second
PATIENCE_SECONDS = 60


def watch(console: Console, job_id: UUID) -> Job:
    """Show the progress of the job, read from its row, until it has reached its outcome."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    job = Job.objects.get(pk=job_id)
    with _progress_bar(console) as bar:
        line = bar.add_task(job.job_type, total=100, message="")
        while not is_terminal_state(job.status):
            if time.monotonic() > deadline:
                raise CommandError(f"The job is {job.status} after {PATIENCE_SECONDS} s.")
            time.sleep(POLL_SECONDS)
            seen, job = job, Job.objects.get(pk=job_id)
            if _visible(job) != _visible(seen):
                if bar.disable:
                    console.print(f"{job.job_type} {job.progress:3} % {job.progress_message}")
                bar.update(line, completed=job.progress, message=job.progress_message, refresh=True)
    return job


def show_outcome(console: Console, job: Job) -> None:
    """Print status, items, errors, log and assets of a job that has ended."""
    console.print(f"\n{job.job_type}: {job.status}, progress {job.progress} %, {job.result}")
    if job.items_total:
        console.print(f"items: {job.items_succeeded} succeeded, {job.items_failed} failed")
    if job.error_message:
        console.print(job.error_message)
    console.print(_log(job))
    console.print("assets:")
    for asset in job.assets.order_by("name"):
        path = storages[asset.storage].path(asset.storage_path)
        console.print(f"  {path} ({asset.file_size} bytes)")


def _progress_bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} % {task.fields[message]}"),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    )


def _visible(job: Job) -> tuple[int, str]:
    return job.progress, job.progress_message


def _log(job: Job) -> Table:
    table = Table(box=SIMPLE_HEAD)
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
    return table
