"""Taking the next job: one guarded statement, in the one order of all that waits."""

from __future__ import annotations

import logging
from typing import Any

from django.db import DatabaseError, connections, transaction

from django_jobs.conf import conf
from django_jobs.handlers import registry
from django_jobs.models import FailureCode, Job, JobStatus, clock, persistence
from django_jobs.models.job import cancel_message
from django_jobs.models.transient import TRANSIENT, Patience
from django_jobs.services.settling import waited_too_long
from django_jobs.services.steering import end_waiting
from django_jobs.values import describe_exception

logger = logging.getLogger(__name__)
CANDIDATES = 10  # rows tried in turn where they cannot be locked while they are read
PATIENCE = 300.0  # seconds of asking whether a claim was committed
ROUNDS = 5  # of looking again after others were faster with every candidate


def claimable(alias: str) -> Any:
    """What this process may run and is due now, in the order of claims."""
    return (
        Job.objects.using(alias)
        .due()
        .filter(queue__in=conf.queues, job_type__in=registry.handled_names())
    )


class Claim:
    """One try to take the next job for ``worker``. Its job keeps the receipt until it is known."""

    def __init__(self, alias: str, worker: str) -> None:
        self.job: Job | None = None
        self._alias = alias
        self._worker = worker

    def take(self) -> None:
        """Take the next job within the caller's transaction; ``job`` is ``None`` if none waits."""
        for _ in range(ROUNDS):
            candidates = self._candidates()
            for candidate in candidates:
                self.job = candidate
                if self._start(candidate):
                    return
            self.job = None
            if not candidates:
                return

    def confirm(self) -> Job | None:
        """After the commit: return the job, now ours."""
        if self.job is not None:
            persistence.written(self.job, self._alias)
        return self.job

    def adopt(self) -> Job | None:
        """After a commit whose reply was lost: return the job if it was taken all the same."""
        job = self.job
        if job is None or not job._unsaved_log:
            return None
        waiting = Patience(self._alias, PATIENCE)
        while True:
            try:
                return self._renewed(job) if persistence.acknowledge(job, self._alias) else None
            except TRANSIENT as error:
                waiting.bear(error, f"job {job.pk} ({job.job_type}): whether it was claimed waits")

    def _renewed(self, job: Job) -> Job | None:
        lease = conf.lease(connections[self._alias].vendor)
        job.due_at = job.lease_end(clock.now(self._alias), lease)
        with transaction.atomic(using=self._alias):
            is_ours = persistence.write(job, self._alias)
        return self.confirm() if is_ours else None

    def _candidates(self) -> list[Job]:
        rows = claimable(self._alias)
        connection = connections[self._alias]
        if connection.vendor == "postgresql":
            return list(rows.select_for_update(skip_locked=True)[:1])
        # MariaDB would lock every row it passes on its way to the first in this order
        return list(rows[:CANDIDATES])

    def _start(self, job: Job) -> bool:
        now = clock.now(self._alias)
        if job.cancel_requested_at is not None:
            end_waiting(job, FailureCode.CANCELLED, cancel_message(""))
        elif job.start_deadline_at is not None and job.start_deadline_at <= now:
            waited_too_long(job)
        else:
            lease = conf.lease(connections[self._alias].vendor)
            if job.status == JobStatus.QUEUED:
                job.start(worker=self._worker, lease=lease)
            else:
                job.resume(worker=self._worker, lease=lease)
            return persistence.write(job, self._alias, guard=persistence.DECISION)
        if persistence.write(job, self._alias, guard=persistence.DECISION):
            persistence.written(job, self._alias)
        return False


def claim_next(alias: str, worker: str) -> Job | None:
    """Take the next job in a transaction of its own; ``None`` if none waits."""
    claim = Claim(alias, worker)
    try:
        with transaction.atomic(using=alias):
            claim.take()
        return claim.confirm()
    except TRANSIENT as error:  # the reply may have been lost
        logger.warning("claiming waits: %s", describe_exception(error))
        connections[alias].close()
        return claim.adopt()
    except DatabaseError as error:
        logger.exception("a job cannot be started")
        _give_up(claim.job, alias, error)
        return None


def _give_up(job: Job | None, alias: str, error: DatabaseError) -> None:
    """A row that cannot be claimed would be tried for ever: end it."""
    if job is None:
        return
    job.forget_steps()
    end_waiting(job, FailureCode.HANDLER_ERROR, f"The job cannot be started: {error}")
    persistence.update(job, alias, guard=persistence.DECISION)
