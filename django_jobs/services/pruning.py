"""Deleting jobs that ended long ago: batch by batch, beside workers that go on.

A batch is one short transaction. It locks the rows of its jobs first, as workers do, and passes
over those that somebody else holds; terminal rows are written by nobody, so that in practice only
the link of a retry to its original can meet a worker. Django's own collector deletes, by keys: what
a host project hangs on jobs goes, protects and is told as with every other deletion.
"""

from __future__ import annotations

import datetime as dt
import logging
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, connections, transaction
from django.db.models import BooleanField, Case, ProtectedError, Q, RestrictedError, When

from django_jobs.conf import conf
from django_jobs.models import Asset, Job, clock
from django_jobs.models.transient import again_if_undone
from django_jobs.states import TERMINAL_STATES

logger = logging.getLogger(__name__)
BATCH = 1000  # jobs in one transaction
ASSETS = 5000  # of them, about; what is beyond goes in transactions before
PATIENCE = 60.0  # seconds of trying a batch again that others hold up


@dataclass
class Pruned:
    """What came of it. ``kept`` are jobs that something else needs, or holds just now."""

    jobs: int = 0
    assets: int = 0
    kept: int = 0

    @property
    def seen(self) -> int:
        return self.jobs + self.kept


def prune_jobs(
    older_than: dt.timedelta | None = None,
    *,
    statuses: Collection[str] = (),
    job_types: Collection[str] = (),
    using: str | None = None,
    on_batch: Callable[[Pruned], None] | None = None,
) -> Pruned:
    """Delete the jobs that ended at least ``older_than`` ago, with their logs, assets and files.

    Without it ``RETENTION_DAYS`` counts; ``ValueError`` if that is not set either. ``statuses`` and
    ``job_types`` narrow it down. Live jobs are never deleted. ``on_batch`` is told the sums after
    each batch, whose files are gone by then.
    """
    alias = clock.alias_for_write(using)
    jobs = prunable(older_than, statuses=statuses, job_types=job_types, using=alias)
    total = Pruned()
    for keys in _batches(jobs, alias):
        _delete_surplus_assets(keys, alias)
        try:
            _add(total, _delete(keys, alias), len(keys))
        except (ProtectedError, RestrictedError, IntegrityError):
            for key in keys:
                _add(total, _delete_if_possible(key, alias), 1)
        if on_batch is not None:
            on_batch(total)
    return total


def prunable(
    older_than: dt.timedelta | None = None,
    *,
    statuses: Collection[str] = (),
    job_types: Collection[str] = (),
    using: str | None = None,
) -> Any:
    """Return a queryset of the jobs that ``prune_jobs`` would delete now."""
    alias = clock.alias_for_write(using)
    limit = clock.now(alias) - _retention(older_than)
    ends = [status for status in TERMINAL_STATES if status in (statuses or TERMINAL_STATES)]
    # shown the column, SQLite and others go by the index on it and sort all that there is
    hidden = Case(When(status__in=ends, then=True), default=False, output_field=BooleanField())
    jobs = Job.objects.using(alias).filter(hidden, completed_at__lte=limit)
    if job_types:
        jobs = jobs.filter(job_type__in=list(job_types))
    return jobs


def _retention(older_than: dt.timedelta | None) -> dt.timedelta:
    if older_than is not None:
        return older_than
    if conf.RETENTION_DAYS is None:
        raise ValueError("Nobody said how old: neither older_than nor RETENTION_DAYS is given.")
    return dt.timedelta(days=conf.RETENTION_DAYS)


def _batches(jobs: Any, alias: str) -> Iterator[list[uuid.UUID]]:
    """Yield the keys of ``jobs``, those that ended first first; each is met once."""
    size = _batch_size(alias)
    ordered = jobs.order_by("completed_at", "pk").values_list("completed_at", "pk")
    batch = list(ordered[:size])
    while batch:
        yield [key for _, key in batch]
        moment, key = batch[-1]
        later = Q(completed_at__gt=moment) | Q(completed_at=moment, pk__gt=key)
        batch = list(ordered.filter(later, completed_at__gte=moment)[:size])


def _batch_size(alias: str) -> int:
    return min(BATCH, connections[alias].features.max_query_params or BATCH)


def _delete(keys: Sequence[uuid.UUID], alias: str) -> Pruned:
    def delete() -> Pruned:
        with transaction.atomic(using=alias):
            unlocked = _locked(keys, alias)
            _, deleted = Job.objects.using(alias).filter(pk__in=unlocked).only("pk").delete()
        return Pruned(deleted.get(Job._meta.label, 0), deleted.get(Asset._meta.label, 0))

    return again_if_undone(alias, delete, seconds=PATIENCE)


def _locked(keys: Sequence[uuid.UUID], alias: str) -> list[uuid.UUID]:
    """Lock the rows with these keys, but for those that somebody else holds; return their keys."""
    jobs = Job.objects.using(alias).filter(pk__in=keys).order_by("pk")
    if connections[alias].features.has_select_for_update_skip_locked:
        jobs = jobs.select_for_update(skip_locked=True)
    return list(jobs.values_list("pk", flat=True))


def _delete_if_possible(key: uuid.UUID, alias: str) -> Pruned:
    try:
        return _delete([key], alias)
    except (ProtectedError, RestrictedError, IntegrityError) as error:
        logger.warning("job %s is kept, something else needs it: %s", key, error)
        return Pruned()


def _delete_surplus_assets(keys: Sequence[uuid.UUID], alias: str) -> None:
    """Delete assets until a transaction can take the rest: a job may have made a million."""
    assets = Asset.objects.using(alias)
    of_jobs = assets.filter(job_id__in=keys).order_by("pk").values_list("pk", flat=True)
    while surplus := list(of_jobs[ASSETS : ASSETS + _batch_size(alias)]):
        again_if_undone(alias, assets.filter(pk__in=surplus).delete, seconds=PATIENCE)


def _add(total: Pruned, pruned: Pruned, wanted: int) -> None:
    total.jobs += pruned.jobs
    total.assets += pruned.assets
    total.kept += wanted - pruned.jobs
