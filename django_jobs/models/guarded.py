"""Loading and saving a row whose state is guarded: what was loaded is remembered and named."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

from django.db import models

from django_jobs.models import persistence
from django_jobs.models.transition import JobTransition

if TYPE_CHECKING:
    from typing import Self

    from django_jobs.models.job import Job

#: The row that is being reloaded here, in this thread: its state may be set.
_reloading: ContextVar[Any] = ContextVar("django_jobs_reloading", default=None)


class GuardedModel(models.Model):
    """Remembers what was loaded; writes what changed, if the row is still like that."""

    class Meta:
        abstract = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._unsaved_log: list[JobTransition] = []
        self._loaded: dict[str, Any] = {}
        self._written_fields: frozenset[str] = frozenset()
        self._reported: dict[str, Any] = {}

    @classmethod
    def from_db(cls, db: str | None, field_names: Any, values: Any, **options: Any) -> Self:
        job = super().from_db(db, field_names, values, **options)
        job.remember()
        return job

    def remember(self) -> None:
        """Take what is in memory as what is in the database."""
        self._loaded = persistence.snapshot(cast("Job", self))
        self._unsaved_log = []

    def forget_steps(self) -> None:
        """Undo what was changed in memory since the job was loaded, but for the last reports."""
        self.__dict__.update(persistence.copied(self._loaded))
        self.__dict__.update(self._reported)
        self._unsaved_log = []

    def take_from(self, row: Self, *names: str) -> None:
        """Take the values of those attributes from ``row``, which was loaded later, as loaded."""
        news = {name: row.__dict__[name] for name in names}
        self.__dict__.update(news)
        self._loaded = {**self._loaded, **news}

    def clean_fields(self, exclude: Any = None) -> None:
        """Validate the fields; ``status`` needs no cleaning, which would assign it."""
        super().clean_fields({*(exclude or ()), "status"})

    @property
    def is_reloading(self) -> bool:
        return _reloading.get() is self

    def refresh_from_db(
        self, using: str | None = None, fields: Any = None, from_queryset: Any = None
    ) -> None:
        """Reload from the database. Unsaved steps are forgotten when all fields are reloaded."""
        token = _reloading.set(self)
        try:
            super().refresh_from_db(using=using, fields=fields, from_queryset=from_queryset)
        finally:
            _reloading.reset(token)
        if fields is None:
            self.remember()
        else:
            self._loaded = {**self._loaded, **persistence.snapshot(cast("Job", self), fields)}

    def save(
        self,
        *,
        force_insert: bool | tuple[Any, ...] = False,
        force_update: bool = False,
        using: str | None = None,
        update_fields: Any = None,
    ) -> None:
        """Write a new job, or what changed of a loaded one with the log of the steps taken.

        ``InvalidStateTransitionError`` for a new job that is not QUEUED or a terminal one that
        would change, ``StaleJob`` if the row is no longer in the state that was loaded.
        """
        alias = using or persistence.alias_of(cast("Job", self))
        if self._state.adding:
            persistence.insert(cast("Job", self), alias)
        else:
            persistence.update(cast("Job", self), alias, update_fields=update_fields)

    def insert_row(self, alias: str) -> None:
        """Django's own INSERT of this instance, without the log."""
        super().save(force_insert=True, using=alias)
