"""Showing what goes on: a moving bar on a terminal; of a job that runs, plain lines elsewhere."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol

from django.core.management.base import OutputWrapper

from django_jobs.models import Job


class Display(AbstractContextManager["Display"], Protocol):
    """Shows a job each time that something visible of it has changed."""

    def show(self, job: Job) -> None: ...


class Lines:
    """One line for each change: for logs, pipes, and terminals without ``rich``."""

    def __init__(self, stdout: OutputWrapper) -> None:
        self._stdout = stdout

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, job: Job) -> None:
        self._stdout.write(f"{job.progress:3} % {describe(job)}".rstrip())


class Bar:
    """A progress bar of the library ``rich``."""

    def __init__(self, progress: Any, job_type: str) -> None:
        self._progress = progress
        self._line = progress.add_task(job_type, total=100, message="")

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def show(self, job: Job) -> None:
        self._progress.update(
            self._line, completed=job.progress, message=describe(job), refresh=True
        )


class Counter:
    """Shows how many rows of many are done, if it has a bar of the library ``rich``."""

    def __init__(self, progress: Any = None) -> None:
        self._progress = progress

    def __enter__(self) -> Counter:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(self, done: int) -> None:
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[0], completed=done, refresh=True)


def display_for(stdout: OutputWrapper, job_type: str) -> Display:
    """Return a bar if ``stdout`` is a terminal and ``rich`` is installed, else lines."""
    progress = _rich_progress(stdout, "{task.percentage:>3.0f} %", "{task.fields[message]}")
    return Lines(stdout) if progress is None else Bar(progress, job_type)


def counter_for(stdout: OutputWrapper, title: str, rows: Any) -> Counter:
    """Return a bar for ``rows`` (a queryset, counted only if there is a bar to show)."""
    progress = _rich_progress(stdout, "{task.completed:.0f} of {task.total:.0f}", "")
    if progress is not None:
        progress.add_task(title, total=rows.count())
    return Counter(progress)


def _rich_progress(stdout: OutputWrapper, count: str, message: str) -> Any:
    """Return a bar with texts behind it; ``None`` without a terminal or without ``rich``."""
    if not stdout.isatty():
        return None
    try:  # rich is an extra (django-durable-jobs[cli]), and slow to import
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError:
        return None
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn(count),
        TimeElapsedColumn(),
        TextColumn(message, markup=False),
    )
    inner: Any = stdout._out  # the wrapper would end each piece with a line end
    return Progress(*columns, console=Console(file=inner))


def describe(job: Job) -> str:
    """Return what a job is doing, in a few words."""
    if job.is_terminal:
        return str(job.status)
    if job.cancel_requested_at is not None:
        return "is asked to stop"
    if job.is_waiting:
        return f"waits for attempt {job.attempt + 1}" if job.attempt else "waits for a worker"
    attempt = f" (attempt {job.attempt} of {job.max_attempts})" if job.attempt > 1 else ""
    return f"{job.progress_message}{attempt}".strip() or "runs"
