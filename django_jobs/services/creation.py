"""Ordering a job: everything is checked before anything is written."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import IntegrityError, transaction
from django.utils import timezone

from django_jobs import wakeup
from django_jobs.exceptions import IdempotencyConflict, InvalidParameters, TooManyActiveJobs
from django_jobs.handlers import JobType, registry
from django_jobs.handlers.parameters import stored_parameters
from django_jobs.models import Job, clock
from django_jobs.models.attempts import NEVER
from django_jobs.models.job import MAX_NAME
from django_jobs.values import storable_text

MAX_KEY = 255


def create_job(
    user: Any,
    job_type: str,
    parameters: Any = None,
    *,
    run_at: dt.datetime | None = None,
    priority: int = 0,
    queue: str | None = None,
    idempotency_key: str | None = None,
) -> Job:
    """Order a job for ``user`` and return it, queued; under the immediate engine as it ended.

    ``run_at`` is the moment before which it does not start, ``priority`` is -100..100 (higher
    first), ``queue`` is that of the type by default. A second call of the user with the same
    ``idempotency_key`` returns the first job, with ``found_by_key`` set. Raises
    ``UnknownJobType``, ``InvalidParameters``, ``IdempotencyConflict``, ``TooManyActiveJobs``, or
    ``ValueError`` for another argument.
    """
    known = registry.get(job_type)
    job = Job(
        user=user,
        job_type=known.name,
        parameters=stored_parameters(known, parameters),
        run_at=checked_run_at(run_at),
        priority=_checked_priority(priority),
        queue=storable_text("queue", known.queue if queue is None else queue, MAX_NAME),
        max_attempts=known.max_attempts,
        idempotency_key=checked_key(idempotency_key),
    )
    return enter(job, known) if idempotency_key is None else _enter_once(job, known)


def create_jobs(user: Any, job_type: str, parameter_list: Iterable[Any]) -> list[Job]:
    """Order one job for each of ``parameter_list``, all or none, and return them in that order.

    Errors as ``create_job``; those of parameters are under the index of their entry.
    """
    known = registry.get(job_type)
    jobs = [
        Job(
            user=user,
            job_type=known.name,
            parameters=parameters,
            queue=known.queue,
            max_attempts=known.max_attempts,
        )
        for parameters in _all_stored_parameters(known, parameter_list)
    ]
    if not jobs:
        return []
    alias = clock.alias_for_write()
    with transaction.atomic(using=alias):
        _check_active(known, user, alias, len(jobs))
        Job.objects.using(alias).bulk_create(jobs, batch_size=500)
    wakeup.jobs_wait(jobs, alias)
    wakeup.refresh_what_ran(jobs, alias)
    return jobs


def enter(job: Job, known: JobType) -> Job:
    """Write a new job and wake somebody to run it."""
    alias = clock.alias_for_write()
    if known.max_active_per_user is None:
        job.save(using=alias)
    else:
        with transaction.atomic(using=alias):
            _check_active(known, job.user, alias, 1)
            job.save(using=alias)
    wakeup.jobs_wait([job], alias)
    wakeup.refresh_what_ran([job], alias)
    return job


def _enter_once(job: Job, known: JobType) -> Job:
    alias = clock.alias_for_write()
    earlier = _same_key(job, alias)
    if earlier is None:
        try:
            with transaction.atomic(using=alias):
                enter(job, known)
            wakeup.refresh_what_ran([job], alias)
            return job
        except IntegrityError:  # somebody else was faster with this key; or it is another fault
            earlier = _same_key(job, alias)
            if earlier is None:
                raise
    if not _is_same_order(earlier, job):
        raise IdempotencyConflict
    earlier.found_by_key = True
    return earlier


def _same_key(job: Job, alias: str) -> Job | None:
    found: Job | None = (
        Job.objects.using(alias)
        .for_user(job.user_id)
        .filter(idempotency_key=job.idempotency_key)
        .first()
    )
    return found


def _is_same_order(earlier: Job, job: Job) -> bool:
    compared = ("job_type", "parameters", "queue", "priority", "run_at")
    return all(getattr(earlier, name) == getattr(job, name) for name in compared)


def _check_active(known: JobType, user: Any, alias: str, more: int) -> None:
    """Count under a lock on the user's row: two requests cannot both take the last place."""
    limit = known.max_active_per_user
    if limit is None:
        return
    get_user_model()._default_manager.using(alias).select_for_update().get(pk=user.pk)
    active = Job.objects.using(alias).for_user(user).live().filter(job_type=known.name).count()
    if active + more > limit:
        raise TooManyActiveJobs(
            f"You have {active} active jobs of the type {known.name}; {limit} are allowed."
        )


def _all_stored_parameters(known: JobType, parameter_list: Iterable[Any]) -> list[dict[str, Any]]:
    stored, errors = [], {}
    for index, parameters in enumerate(parameter_list):
        try:
            stored.append(stored_parameters(known, parameters))
        except InvalidParameters as error:
            errors[index] = error.errors
    if errors:
        raise InvalidParameters(errors)
    return stored


def checked_run_at(run_at: dt.datetime | None) -> dt.datetime | None:
    """Return the moment as it is stored, or raise ``ValueError``."""
    if run_at is None:
        return None
    if not isinstance(run_at, dt.datetime):
        raise ValueError(f"run_at must be a datetime, not {run_at!r:.50}")
    if settings.USE_TZ and timezone.is_naive(run_at):
        raise ValueError("run_at must be an aware datetime")
    if not settings.USE_TZ and timezone.is_aware(run_at):
        run_at = _made_naive(run_at)
    if abs(run_at - timezone.now()) > NEVER:  # databases and time zones end with the calendar
        raise ValueError(f"run_at must be within a century, not {run_at}")
    return run_at


def _made_naive(moment: dt.datetime) -> dt.datetime:
    try:
        return timezone.make_naive(moment)
    except OverflowError as error:
        raise ValueError(f"run_at must be within a century, not {moment}") from error


def _checked_priority(priority: int) -> int:
    if isinstance(priority, bool) or not isinstance(priority, int) or abs(priority) > 100:
        raise ValueError(f"priority must be a whole number from -100 to 100, not {priority!r:.50}")
    return priority


def checked_key(key: str | None) -> str | None:
    """Return an idempotency key that can be stored (1 to 255 characters), else ``ValueError``."""
    return None if key is None else storable_text("idempotency_key", key, MAX_KEY)
