"""The immediate engine: jobs run at commit in the calling process. For tests and small sites.

No keeper and no timeout; the lease is the timeout of the type. Nothing is raised into the caller.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from typing import Any

from django.db import Error, connections, transaction

from django_jobs.exceptions import LeaseLost, StaleJob
from django_jobs.execution.finish import finish
from django_jobs.execution.items import Items
from django_jobs.execution.reports import Reports
from django_jobs.execution.runner import run_handler
from django_jobs.models import Asset, Job, JobStatus, persistence
from django_jobs.models.attempts import NEVER
from django_jobs.services.assets import attach
from django_jobs.services.fencing import Fence
from django_jobs.services.identity import worker_name
from django_jobs.services.progress import write_progress

logger = logging.getLogger(__name__)
PATIENCE = 5.0  # seconds for the outcome of a job while the database is away
FLUSH_EVERY = 0.02  # seconds between two writes of progress


class InlineAttempt:
    """Takes the reports of a handler on the handler's own connection, that is: in its thread.

    In other threads, and so in coroutines, reports wait for the next one from here or for the end.
    """

    def __init__(self, job: Job, alias: str) -> None:
        self.fence = Fence.of(job)
        self.reports = Reports()
        self._job_type = job.job_type
        self._alias = alias
        self._thread = threading.get_ident()
        self._written_at = 0.0

    @property
    def cancel_requested(self) -> bool:
        if threading.get_ident() != self._thread:
            return False
        row = Job.objects.using(self._alias).filter(pk=self.fence.job_id)
        return row.filter(cancel_requested_at__isnull=False).exists()

    def report(self, percent: int, message: str | None, items: Items) -> None:
        self.reports.remember(percent, message, items)
        is_due = time.monotonic() - self._written_at >= FLUSH_EVERY
        if is_due and threading.get_ident() == self._thread:
            self._flush()
            self._written_at = time.monotonic()

    def attach(self, asset: Asset) -> Asset:
        return attach(asset, self.fence, self._alias)

    def body(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def _flush(self) -> None:
        if connections[self._alias].needs_rollback:
            return  # the handler's own transaction is broken: nothing can be said
        percent, columns = self.reports.percent, self.reports.columns()
        try:
            with transaction.atomic(using=self._alias):
                is_open = write_progress(self.fence, self._alias, percent, **columns)
        except Error:
            self._warn("its progress was not written", exc_info=True)
        else:
            if not is_open:
                self._warn("progress ignored, its attempt is over")

    def _warn(self, what: str, **options: Any) -> None:
        logger.warning("job %s (%s): %s", self.fence.job_id, self._job_type, what, **options)


def run_job(job_id: uuid.UUID, alias: str) -> None:
    """Run a queued job here and now, repeated attempts without their delay, to its outcome."""
    try:
        job = Job.objects.using(alias).filter(pk=job_id).first()
        while job is not None and job.is_waiting and _is_handled(job):
            _run_attempt(job, alias)
    except (StaleJob, LeaseLost) as error:  # somebody else decided
        logger.info("job %s: %s", job_id, error)
    except Error:
        logger.exception("job %s: the database is away; settle_jobs will end it", job_id)


def _is_handled(job: Job) -> bool:
    return job.type is not None and not job.type.is_external


def _run_attempt(job: Job, alias: str) -> None:
    known = job.type
    lease = (known.timeout if known else None) or NEVER.total_seconds()
    if job.status == JobStatus.QUEUED:
        job.start(worker=worker_name(), lease=lease)
    else:
        job.resume(worker=worker_name(), lease=lease)
    persistence.update(job, alias, guard=persistence.DECISION)
    attempt = InlineAttempt(job, alias)
    outcome = run_handler(job, attempt, alias)
    attempt.reports.apply(job)
    finish(job, outcome, alias, patience=PATIENCE)
