"""Ending what nobody will end any more: lost attempts, waits that lasted too long.

The rules are the same for the broker, the keepers and ``manage.py settle_jobs``. A settler never
waits for a lock, works on one row per transaction, and repeats in its guard what it decided on.
"""

from __future__ import annotations

import datetime as dt
import logging
import time
import uuid
from collections.abc import Callable
from typing import Any

from django.db import Error, connections, transaction
from django.db.models import Q

from django_jobs.conf import conf
from django_jobs.models import FailureCode, Job, JobStatus, clock, persistence
from django_jobs.models.attempts import backoff, is_ours
from django_jobs.models.job import cancel_message
from django_jobs.services.durations import in_words
from django_jobs.services.identity import is_certainly_dead, machine_prefix
from django_jobs.services.steering import end_waiting
from django_jobs.values import describe_exception

logger = logging.getLogger(__name__)
BATCH = 50  # rows tried in one round
LOOKED_AT = 1000  # rows looked at in one round
PATIENCE = 0.2  # seconds to enter a transaction on SQLite before the lock counts as a sign of life


class Sightings:
    """Lapsed leases seen, and since when. A lapse is a suspicion: only the second sighting counts.

    A live worker's keeper can be held up (by a lock, by an outage of the database); what was seen
    before an error or a wait for a lock is forgotten, so that the keeper can renew first.
    """

    def __init__(self) -> None:
        self._first_seen: dict[tuple[Any, ...], float] = {}

    def is_confirmed(self, *row: Any) -> bool:
        """Note a lapsed row (id, attempt, worker, due_at); say if it was seen so two ticks ago."""
        first = self._first_seen.setdefault(row, time.monotonic())
        return time.monotonic() - first >= 2 * conf.TICK

    def is_too_fresh(self, *row: Any) -> bool:
        """Say whether the row was seen so, but less than two ticks ago: no need to look again."""
        return row in self._first_seen and not self.is_confirmed(*row)

    def seconds_to_confirm(self) -> float:
        """Return how long it takes until all that was seen so far can be confirmed; 0 if it can."""
        latest = max(self._first_seen.values(), default=float("-inf"))
        return max(0.0, latest + 2 * conf.TICK - time.monotonic())

    def forget(self, job_id: uuid.UUID) -> None:
        self._first_seen = {k: v for k, v in self._first_seen.items() if k[0] != job_id}

    def clear(self) -> None:
        self._first_seen.clear()


def settle(alias: str, sightings: Sightings, *, limit: int = BATCH) -> list[Job]:
    """End or put back what must be, at most ``limit`` jobs; return them. Never waits for a lock."""
    settled = []
    try:
        for job_id in _suspects(alias, sightings)[:limit]:
            job = _settle_one(job_id, alias, sightings)
            if job is not None:
                sightings.forget(job_id)
                settled.append(job)
    except Error:
        sightings.clear()
        raise
    return settled


def _suspects(alias: str, sightings: Sightings) -> list[uuid.UUID]:
    """Return what is worth a look: sightings count only with proof that the row is not locked."""
    now = clock.now(alias)
    ours = Q(worker__startswith=machine_prefix()) if machine_prefix() else Q(pk__in=[])
    waits = Q(worker="") & (Q(start_deadline_at__lte=now) | Q(cancel_requested_at__isnull=False))
    runs = ~Q(worker="") & (Q(due_at__lte=now) | ours)
    jobs = Job.objects.using(alias)
    columns = ("pk", "attempt", "worker", "due_at")
    processing = jobs.filter(status=JobStatus.PROCESSING).filter(waits | runs)
    queued = jobs.filter(status=JobStatus.QUEUED, start_deadline_at__lte=now)
    rows = processing.values_list(*columns).union(queued.values_list(*columns), all=True)
    return [
        job_id
        for job_id, attempt, worker, due_at in rows.order_by("due_at")[:LOOKED_AT]
        if not worker
        or is_certainly_dead(worker)
        or (due_at <= now and not sightings.is_too_fresh(job_id, attempt, worker, due_at))
    ]


def _settle_one(job_id: uuid.UUID, alias: str, sightings: Sightings) -> Job | None:
    asked_at = time.monotonic()
    with transaction.atomic(using=alias):
        if time.monotonic() - asked_at > PATIENCE and connections[alias].vendor == "sqlite":
            sightings.clear()
            return None
        job = _unlocked(job_id, alias)
        if job is None:  # gone, or locked: somebody is alive
            sightings.forget(job_id)
            return None
        verdict = _verdict(job, clock.now(alias), sightings)
        if verdict is None:
            return None
        verdict(job)
        guard = (*persistence.DECISION, "start_deadline_at")
        if not persistence.write(job, alias, guard=guard):
            return None
        persistence.written(job, alias)
    logger.warning("job %s (%s) settled: %s", job.pk, job.job_type, job.error_message or "waits")
    return job


def _unlocked(job_id: uuid.UUID, alias: str) -> Job | None:
    jobs = Job.objects.using(alias).live().filter(pk=job_id)
    if connections[alias].features.has_select_for_update_skip_locked:
        jobs = jobs.select_for_update(skip_locked=True)
    job: Job | None = jobs.first()
    return job


def _verdict(job: Job, now: dt.datetime, sightings: Sightings) -> Callable[[Job], None] | None:
    if job.is_waiting:
        if job.cancel_requested_at is not None:
            return _cancelled_waiting
        is_late = job.start_deadline_at is not None and job.start_deadline_at <= now
        return waited_too_long if is_late else None
    if is_certainly_dead(job.worker):
        return _lost_for("its process has ended", now)
    if (
        job.due_at is None
        or job.due_at > now
        or not sightings.is_confirmed(job.pk, job.attempt, job.worker, job.due_at)
    ):
        return None
    return _lost_for("it was not heard of until its lease ended", now)


def _cancelled_waiting(job: Job) -> None:
    end_waiting(job, FailureCode.CANCELLED, cancel_message(""), actor=job.cancel_requested_by)


def waited_too_long(job: Job) -> None:
    """Take a job whose start deadline has passed to FAILED, in memory."""
    waited = in_words(_seconds_between(job.due_at, job.start_deadline_at))
    if job.attempt:
        code = FailureCode.WORKER_LOST
        message = (
            f"No worker took up attempt {job.attempt + 1} of {job.max_attempts} within {waited}."
        )
    elif job.type is None:
        code = FailureCode.UNKNOWN_JOB_TYPE
        message = f"No handler for jobs of the type {job.job_type} was found within {waited}."
    else:
        code = FailureCode.NEVER_STARTED
        message = f"No worker took up the job within {waited}."
    end_waiting(job, code, message)


def _lost_for(reason: str, now: dt.datetime) -> Callable[[Job], None]:
    def end(job: Job) -> None:
        if job.cancel_requested_at is not None:
            job.fail(cancel_message(""), FailureCode.CANCELLED, actor=job.cancel_requested_by)
            return
        code, message = _loss(job, reason, now)
        if job.may_be_repeated:
            delay = backoff(job.type.retry_delay if job.type else 0, job.attempt)
            job.postpone(delay=delay, code=code, message=message)
        else:
            job.fail(message, code)

    return end


def _loss(job: Job, reason: str, now: dt.datetime) -> tuple[FailureCode, str]:
    if job.run_deadline_at is not None and job.run_deadline_at <= now:
        limit = in_words(job.type.timeout if job.type else None)
        return FailureCode.TIMED_OUT, f"The job took longer than its limit of {limit}."
    who = "worker" if is_ours(job.worker) else "program"
    return FailureCode.WORKER_LOST, f"The {who} that ran attempt {job.attempt} was lost: {reason}."


def _seconds_between(begin: dt.datetime | None, end: dt.datetime | None) -> float | None:
    return (end - begin).total_seconds() if begin and end else None


def settle_quietly(alias: str, sightings: Sightings) -> None:
    """``settle`` for a thread that must live on: errors are logged."""
    try:
        settle(alias, sightings)
    except Error as error:
        logger.warning("settling waits: %s", describe_exception(error))
        if not connections[alias].in_atomic_block:
            connections[alias].close()
