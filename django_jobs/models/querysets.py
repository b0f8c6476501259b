"""Queries by what jobs need, and writes that cannot go round the state machine."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from django.db import connections, models, transaction
from django.db.models import BooleanField, Case, Q, When

from django_jobs.exceptions import InvalidStateTransitionError, JobsError
from django_jobs.models import clock, persistence
from django_jobs.models.transition import JobTransition
from django_jobs.states import LIVE_STATES, TERMINAL_STATES, JobStatus

if TYPE_CHECKING:
    from django_jobs.models.job import Job


class JobQuerySet(models.QuerySet["Job"]):
    """Jobs. ``status`` is changed by transitions only: the bulk writes refuse it."""

    def for_user(self, user: Any) -> JobQuerySet:
        """The jobs of ``user`` (a user or its key)."""
        return self.filter(user_id=getattr(user, "pk", user))

    def live(self) -> JobQuerySet:
        return self.filter(status__in=LIVE_STATES)

    def terminal(self) -> JobQuerySet:
        return self.filter(status__in=TERMINAL_STATES)

    def waiting(self) -> JobQuerySet:
        """What no attempt is open for: new, delayed, between attempts."""
        return self.live().filter(worker="")

    def due(self, at: dt.datetime | None = None) -> JobQuerySet:
        """What may be claimed at the moment ``at`` (now), in the order in which it is claimed."""
        moment = at or clock.now(self.db)
        return self.waiting().filter(due_at__lte=moment).order_by("-priority", "due_at", "id")

    def overdue(self, at: dt.datetime | None = None) -> JobQuerySet:
        """What should have been settled at the moment ``at`` (now): lapsed, or never taken up."""
        moment = at or clock.now(self.db)
        lapsed = ~Q(worker="") & Q(due_at__lte=moment)
        return self.live().filter(lapsed | Q(worker="", start_deadline_at__lte=moment))

    def unchanged(self, key: uuid.UUID, **expected: Any) -> JobQuerySet:
        """The job with this key, if its row is as ``expected`` (lookups): the guard of a write."""
        guard: Any = Q(**expected)
        if connections[self.db].vendor == "mysql":
            # Shown the columns, MariaDB finds the row by an index on them, and locks the entry of
            # the index before the row; a write that found it by key locks the other way round.
            guard = Case(When(guard, then=True), default=False, output_field=BooleanField())
        return self.filter(guard, pk=key)

    def update(self, **values: Any) -> int:
        if "status" in values:
            raise JobsError("The status of a job is changed by transitions, not by update().")
        return super().update(**values)

    update.alters_data = True  # type: ignore[attr-defined]

    def guarded_update(self, **values: Any) -> int:
        """``update()`` for the state machine itself: the filters must name the state expected."""
        return super().update(**values)

    guarded_update.alters_data = True  # type: ignore[attr-defined]

    def bulk_update(
        self, objs: Iterable[Job], fields: Iterable[str], batch_size: int | None = None
    ) -> int:
        names = list(fields)
        if "status" in names:
            raise JobsError("The status of a job is changed by transitions, not by bulk_update().")
        return super().bulk_update(objs, names, batch_size)

    bulk_update.alters_data = True  # type: ignore[attr-defined]

    def bulk_create(
        self,
        objs: Iterable[Job],
        batch_size: int | None = None,
        ignore_conflicts: bool = False,
        update_conflicts: bool = False,
        update_fields: Collection[str] | None = None,
        unique_fields: Collection[str] | None = None,
    ) -> list[Job]:
        """Create queued jobs and the first line of each one's log, in one transaction."""
        if ignore_conflicts or update_conflicts:
            raise JobsError("bulk_create() of jobs cannot ignore or update existing rows.")
        jobs = list(objs)
        for job in jobs:
            if job.status != JobStatus.QUEUED:
                raise InvalidStateTransitionError("new", job.status)
            job.prepare_to_wait()
        with transaction.atomic(using=self.db):
            created = super().bulk_create(jobs, batch_size)
            entries = [JobTransition.of_creation(job) for job in created]
            JobTransition.objects.using(self.db).bulk_create(entries, batch_size)
        for job, entry in zip(created, entries, strict=True):
            persistence.inserted(job, entry, self.db)
        return created

    bulk_create.alters_data = True  # type: ignore[attr-defined]


JobManager = models.Manager.from_queryset(JobQuerySet)
