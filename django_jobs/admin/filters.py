"""Filters of the list of jobs; their choices come from declarations, never from the table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_jobs.conf import conf
from django_jobs.handlers import registry
from django_jobs.states import FailureCode, JobStatus


class _ColumnFilter(admin.SimpleListFilter):
    """Filters by one column; a value that is no longer declared still works in an address."""

    def choices_of_column(self) -> Iterable[tuple[str, Any]]:
        raise NotImplementedError

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        choices = list(self.choices_of_column())
        wanted = self.value()
        if wanted and wanted not in dict(choices):
            choices.append((wanted, wanted))
        return choices

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        wanted = self.value()
        if not wanted:
            return queryset
        if "\0" in wanted:  # PostgreSQL's driver refuses this character
            return queryset.none()
        return queryset.filter(**{str(self.parameter_name): wanted})


class StatusFilter(_ColumnFilter):
    title = _("status")
    parameter_name = "status"

    def choices_of_column(self) -> Iterable[tuple[str, Any]]:
        return JobStatus.choices


class JobTypeFilter(_ColumnFilter):
    title = _("job type")
    parameter_name = "job_type"

    def choices_of_column(self) -> Iterable[tuple[str, Any]]:
        return ((known.name, known.title or known.name) for known in registry)


class FailureCodeFilter(_ColumnFilter):
    title = _("failure code")
    parameter_name = "failure_code"

    def choices_of_column(self) -> Iterable[tuple[str, Any]]:
        return ((code, code) for code in FailureCode.values)


class QueueFilter(_ColumnFilter):
    title = _("queue")
    parameter_name = "queue"

    def choices_of_column(self) -> Iterable[tuple[str, Any]]:
        names = {*conf.queues, *(known.queue for known in registry)}
        return ((name, name) for name in sorted(names))
