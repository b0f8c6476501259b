"""How a job reaches the database: one guarded statement and its log, in one transaction."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.db import router, transaction

from django_jobs.exceptions import InvalidStateTransitionError, StaleJob
from django_jobs.models import clock, statements
from django_jobs.models.transient import in_transaction
from django_jobs.models.transition import JobTransition
from django_jobs.signals import job_finished, job_transitioned
from django_jobs.states import LIVE_STATES, JobStatus, is_terminal_state

if TYPE_CHECKING:
    from django_jobs.models.job import Job

logger = logging.getLogger(__name__)

#: What every write must find as it was loaded: who may write for the job at all.
FENCE = ("status", "attempt", "worker")
#: What a decision about a row that one does not hold must find as it was read.
DECISION = (*FENCE, "due_at", "cancel_requested_at")
#: What the end of an attempt must find: no attempt follows a request to cancel, and an end that
#: follows one must come after it in the log.
OUTCOME = (*FENCE, "cancel_requested_at")
_INVISIBLE = frozenset({"due_at"})  # renewing a lease is no news to anybody who watches the job


def alias_of(job: Job) -> str:
    """Return the alias of the database that ``job`` is written to."""
    return router.db_for_write(type(job), instance=job)


def snapshot(job: Job, fields: Iterable[str] | None = None) -> dict[str, Any]:
    """Return the loaded values of ``fields`` (attnames; all by default). Costs no query.

    Of a live job containers are copied: a change inside of one is a change. A terminal row never
    changes, and its result may be large.
    """
    names = {field.attname for field in job._meta.concrete_fields}
    wanted = names if fields is None else names.intersection(fields)
    values = {name: job.__dict__[name] for name in wanted if name in job.__dict__}
    is_live = job.__dict__.get("status", JobStatus.QUEUED) in LIVE_STATES
    return copied(values) if is_live else values


def copied(value: Any) -> Any:
    """Return JSON in containers of its own; faster than ``copy.deepcopy``."""
    if type(value) is dict:
        return {key: copied(inner) for key, inner in value.items()}
    return [copied(inner) for inner in value] if type(value) is list else value


def insert(job: Job, alias: str) -> None:
    """Write a new job and the first line of its log."""
    if job.status != JobStatus.QUEUED or job._unsaved_log:
        raise InvalidStateTransitionError("new", job.status)
    job.prepare_to_wait()
    entry = JobTransition.of_creation(job)
    with transaction.atomic(using=alias):
        job.insert_row(alias)
        statements.insert(alias, [entry])
    inserted(job, entry, alias)


def inserted(job: Job, entry: JobTransition, alias: str) -> None:
    """Take a new job as loaded, and tell the world at commit."""
    job.remember()
    job._unsaved_log = [entry]
    written(job, alias)


def update(
    job: Job,
    alias: str,
    *,
    update_fields: Iterable[str] | None = None,
    guard: Iterable[str] = FENCE,
) -> None:
    """Write what changed of ``job`` and the log of its steps, if the row is as it was loaded.

    ``guard`` names the fields that must be as they were loaded. Raises ``StaleJob`` with the state
    found, and then nothing is written.
    """
    matched = in_transaction(
        alias, lambda: write(job, alias, update_fields=update_fields, guard=guard)
    )
    if not matched:
        raise StaleJob(_what_was_found(job, alias))
    written(job, alias)


def write(
    job: Job,
    alias: str,
    *,
    update_fields: Iterable[str] | None = None,
    guard: Iterable[str] = FENCE,
) -> bool:
    """``update()`` inside the caller's transaction: say whether the row was as it was loaded.

    Call ``written()`` once that transaction has come to its end.
    """
    log = job._unsaved_log
    changes = _changes(job, None if log else update_fields)
    job._written_fields = frozenset()
    if not changes:
        return True
    expected = _expected(job, guard)
    if not _INVISIBLE.issuperset(changes):
        changes["version"] = None  # one more
        if not log:
            changes["updated_at"] = job.updated_at = clock.now(alias)
    job._written_fields = frozenset(changes)
    if not statements.guarded_update(type(job), alias, job.pk, changes, expected):
        return False
    if log:
        statements.insert(alias, log)
    return True


def written(job: Job, alias: str) -> None:
    """Take what was written as loaded, and tell the world at commit."""
    log, names = job._unsaved_log, job._written_fields
    if "version" in names and "version" in job.__dict__:
        job.version += 1
    job._loaded = {**job._loaded, **snapshot(job, names)}  # a new one: copies share the old
    job._unsaved_log, job._written_fields = [], frozenset()
    if log:
        transaction.on_commit(lambda: _announce(job, log), using=alias, robust=True)


def acknowledge(job: Job, alias: str) -> bool:
    """Say whether the steps of ``job`` were written by an earlier try whose reply was lost.

    The keys of the log are the receipts. Ask only after a guarded update that matched no row: it
    waits for the earlier transaction, should that still be committing.
    """
    keys = [entry.pk for entry in job._unsaved_log]
    was_written = JobTransition.objects.using(alias).filter(pk__in=keys).count() == len(keys) > 0
    if was_written:
        written(job, alias)
    return was_written


def _changes(job: Job, update_fields: Iterable[str] | None) -> dict[str, Any]:
    wanted = None if update_fields is None else set(update_fields)
    changes = {}
    for field in job._meta.concrete_fields:
        name = field.attname
        if field.primary_key or name not in job.__dict__ or name == "version":
            continue
        if wanted is not None and not {field.name, name} & wanted:
            continue
        if name not in job._loaded or job._loaded[name] != job.__dict__[name]:
            changes[name] = job.__dict__[name]
    return changes


def _expected(job: Job, guard: Iterable[str]) -> dict[str, Any]:
    """What the row must be like. A terminal row never changes, even if its status was deferred."""
    loaded_status = job._loaded.get("status")
    if loaded_status and is_terminal_state(loaded_status):
        raise InvalidStateTransitionError(loaded_status, job.status)
    expected = {name: job._loaded[name] for name in guard if name in job._loaded}
    return expected if loaded_status else {**expected, "status": LIVE_STATES}


def _jobs(job: Job, alias: str) -> Any:
    return type(job)._default_manager.using(alias)


def _what_was_found(job: Job, alias: str) -> str:
    found = _jobs(job, alias).filter(pk=job.pk).values_list("status", "attempt").first()
    if found is None:
        return f"Job {job.pk} no longer exists."
    loaded = job._loaded
    return (
        f"Job {job.pk} was loaded as {loaded.get('status')}, attempt {loaded.get('attempt')}; "
        f"it is now {found[0]}, attempt {found[1]}."
    )


def _announce(job: Job, log: list[JobTransition]) -> None:
    for entry in log:
        logger.info(
            "job %s (%s): %s -> %s, attempt %s%s%s",
            job.pk,
            job.job_type,
            entry.from_status or "new",
            entry.to_status,
            entry.attempt,
            f", {entry.code}" if entry.code else "",
            f": {entry.message}" if entry.message else "",
        )
        job_transitioned.send_robust(sender=type(job), job=job, transition=entry)
    if is_terminal_state(log[-1].to_status):
        job_finished.send_robust(sender=type(job), job=job)
