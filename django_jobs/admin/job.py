"""The admin of jobs."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_jobs.admin import rendering
from django_jobs.admin.bulk import BulkAdmin
from django_jobs.admin.filters import FailureCodeFilter, JobTypeFilter, QueueFilter, StatusFilter
from django_jobs.admin.page import SHOWN, assets_of, steps_of
from django_jobs.exceptions import JobNotFound
from django_jobs.models import Job
from django_jobs.services.deletion import delete_job
from django_jobs.services.obstacles import obstacle_to_delete


def _moment(name: str) -> Callable[[Any, Job], SafeString | str]:
    """A fact that shows a time of the job to the millisecond."""
    field: Any = Job._meta.get_field(name)

    @admin.display(description=field.verbose_name)
    def shown(_admin: Any, job: Job) -> SafeString | str:
        moment = getattr(job, name)
        return "-" if moment is None else rendering.moment_element(moment)

    return shown


@admin.register(Job)
class JobAdmin(BulkAdmin):
    """Jobs are looked at, cancelled, retried, and deleted once they have ended."""

    list_display = (
        "job_type",
        "outcome",
        "progress_bar",
        "owner",
        "age",
        "attempt_of",
        "queue",
    )
    list_defer = ("parameters", "result", "failed_items", "items_to_retry", "error_message")
    list_filter = (StatusFilter, JobTypeFilter, FailureCodeFilter, QueueFilter, "created_at")
    list_select_related = ("user",)
    search_help_text = gettext_lazy("The id of a job, an idempotency key or the login of a user.")
    fieldsets = (
        (
            None,
            {
                "fields": (
                    "id",
                    "type_name",
                    "user",
                    "status_badge",
                    "progress_bar",
                    "progress_message",
                    "failure_code_text",
                    "error_message",
                )
            },
        ),
        (
            gettext_lazy("Attempts"),
            {
                "fields": (
                    "attempt_of",
                    ("items_total", "items_succeeded", "items_failed"),
                    ("queue", "priority"),
                    "worker",
                    ("cancel_requested", "cancel_requested_by"),
                    "retry_of",
                    "retry",
                    "idempotency_key",
                )
            },
        ),
        (
            gettext_lazy("Times"),
            {
                "fields": (
                    ("created", "updated"),
                    ("started", "completed"),
                    "estimated",
                    ("not_before", "due"),
                    ("start_deadline", "run_deadline"),
                )
            },
        ),
        (
            gettext_lazy("Data"),
            {
                "fields": (
                    "readable_parameters",
                    "readable_items_to_retry",
                    "readable_result",
                    "readable_failed_items",
                )
            },
        ),
    )

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Live jobs are not deleted, but they do go with a user who is deleted."""
        if not super().has_delete_permission(request, obj) or obj is None:
            return super().has_delete_permission(request, obj)
        return not obstacle_to_delete(obj) or self._is_elsewhere(request)

    def _is_elsewhere(self, request: HttpRequest) -> bool:
        match = request.resolver_match
        own = f"{self.opts.app_label}_{self.opts.model_name}_"
        return match is not None and not (match.url_name or "").startswith(own)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        with contextlib.suppress(JobNotFound):  # somebody else was faster
            delete_job(obj.pk)

    def get_search_results(
        self, request: HttpRequest, queryset: Any, search_term: str
    ) -> tuple[Any, bool]:
        """Find by exact id, idempotency key or login."""
        term = search_term.strip()
        if not term:
            return queryset, False
        found = queryset.filter(idempotency_key=term) | queryset.filter(user__in=_users(term))
        with contextlib.suppress(ValueError):
            found |= queryset.filter(pk=uuid.UUID(term))
        return found, False

    def render_change_form(
        self, request: HttpRequest, context: Any, *args: Any, **options: Any
    ) -> HttpResponse:
        job = context["original"]
        context["buttons"] = self.buttons(request, job)
        context["steps"], context["has_earlier_steps"] = steps_of(job)
        if request.user.has_perm("django_jobs.view_asset"):
            context["assets"], context["has_more_assets"] = assets_of(job, self)
        context["shown"] = SHOWN
        return super().render_change_form(request, context, *args, **options)

    # -- columns and facts ---------------------------------------------------------------------

    created = _moment("created_at")
    updated = _moment("updated_at")
    started = _moment("started_at")
    completed = _moment("completed_at")
    not_before = _moment("run_at")
    due = _moment("due_at")
    start_deadline = _moment("start_deadline_at")
    run_deadline = _moment("run_deadline_at")
    cancel_requested = _moment("cancel_requested_at")

    @admin.display(description=gettext_lazy("status"))
    def outcome(self, job: Job) -> SafeString:
        return rendering.outcome(job)

    @admin.display(description=gettext_lazy("status"))
    def status_badge(self, job: Job) -> SafeString:
        return rendering.status_of(job)

    @admin.display(description=gettext_lazy("progress"))
    def progress_bar(self, job: Job) -> SafeString:
        return rendering.progress_bar(job.progress)

    @admin.display(description=gettext_lazy("estimated completion"))
    def estimated(self, job: Job) -> SafeString | str:
        moment = job.estimated_completion
        return "-" if moment is None else rendering.moment_element(moment)

    @admin.display(description=gettext_lazy("user"))
    def owner(self, job: Job) -> str:
        return str(job.user)

    @admin.display(description=gettext_lazy("age"), ordering="-id")
    def age(self, job: Job) -> SafeString:
        return rendering.age(job.created_at)

    @admin.display(description=gettext_lazy("attempt"))
    def attempt_of(self, job: Job) -> str:
        return _("%(attempt)d of %(max)d") % {"attempt": job.attempt, "max": job.max_attempts}

    @admin.display(description=gettext_lazy("failure code"))
    def failure_code_text(self, job: Job) -> SafeString:
        return rendering.failure_code(job.failure_code)

    @admin.display(description=gettext_lazy("job type"))
    def type_name(self, job: Job) -> str:
        if job.type is None:
            return _("%(name)s (not known here)") % {"name": job.job_type}
        return f"{job.job_type} ({job.type.title})" if job.type.title else job.job_type

    @admin.display(description=gettext_lazy("retried as"))
    def retry(self, job: Job) -> SafeString | str:
        if not hasattr(job, "retried_by"):
            return "-"
        address = self.address("django_jobs_job_change", job.retried_by.pk)
        return rendering.link(address, job.retried_by)

    @admin.display(description=gettext_lazy("parameters"))
    def readable_parameters(self, job: Job) -> SafeString:
        return rendering.readable_json(job.parameters)

    @admin.display(description=gettext_lazy("items to retry"))
    def readable_items_to_retry(self, job: Job) -> SafeString:
        return rendering.readable_json(job.items_to_retry)

    @admin.display(description=gettext_lazy("failed items (the first)"))
    def readable_failed_items(self, job: Job) -> SafeString:
        return rendering.readable_json(job.failed_items)

    @admin.display(description=gettext_lazy("result"))
    def readable_result(self, job: Job) -> SafeString:
        return rendering.readable_json(job.result)


def _users(login: str) -> list[Any]:
    model = get_user_model()
    try:
        return list(model._default_manager.filter(**{model.USERNAME_FIELD: login})[:1])
    except (ValueError, ValidationError):  # a login that is a number, say
        return []
