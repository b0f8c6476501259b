"""Cancelling and retrying from the page of a job: ask, then act through the services."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_jobs.admin.readonly import ReadOnlyAdmin
from django_jobs.exceptions import JobsError
from django_jobs.models import Job, clock
from django_jobs.services import cancel_job, retry_job
from django_jobs.services.obstacles import (
    obstacle_to_cancel,
    obstacle_to_retry,
    obstacle_to_retry_of_failed,
)

MAX_REASON = 500


class ReasonForm(forms.Form):
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=MAX_REASON,
        required=False,
        help_text=gettext_lazy("The owner of the job reads it."),
        widget=forms.TextInput(attrs={"class": "vTextField", "autofocus": True}),
    )


class Button(NamedTuple):
    """A link to a page that asks before it acts."""

    label: str
    address: str


class SteeringAdmin(ReadOnlyAdmin):
    """The views, who may use them, and when they are offered."""

    def get_urls(self) -> list[Any]:
        views = [
            ("cancel", self.cancel_view),
            ("retry", self.retry_view),
            ("retry_failed", self.retry_failed_view),
        ]
        own = [
            path(
                f"<path:object_id>/{name}/",
                self.admin_site.admin_view(view),
                name=f"django_jobs_job_{name}",
            )
            for name, view in views
        ]
        return [*own, *super().get_urls()]

    def has_cancel_permission(self, request: HttpRequest, job: Job | None = None) -> bool:
        return bool(request.user.has_perm("django_jobs.change_job"))

    def has_retry_permission(self, request: HttpRequest, job: Job | None = None) -> bool:
        """``add_job``, and what the type of ``job`` asks for."""
        may_add = request.user.has_perm("django_jobs.add_job") and self.has_view_permission(request)
        known = job.type if job is not None else None
        return may_add and (known is None or known.may_be_started_by(request.user))

    def buttons(self, request: HttpRequest, job: Job) -> list[Button]:
        """What may be done to ``job`` now, by whoever looks at it."""
        offered = []
        if self.has_cancel_permission(request, job) and not obstacle_to_cancel(job):
            offered.append(Button(_("Cancel job"), self.address("django_jobs_job_cancel", job.pk)))
        if self.has_retry_permission(request, job) and not obstacle_to_retry(job):
            offered.append(Button(_("Retry job"), self.address("django_jobs_job_retry", job.pk)))
            if not obstacle_to_retry_of_failed(job):
                address = self.address("django_jobs_job_retry_failed", job.pk)
                offered.append(Button(_("Retry failed items"), address))
        return offered

    # -- the views -----------------------------------------------------------------------------

    def cancel_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        job = self.found(request, object_id)
        if not self.has_cancel_permission(request, job):
            raise PermissionDenied
        if job is None:
            return self.not_found(request, object_id)
        if obstacle := obstacle_to_cancel(job):
            return self._state_changed(request, job, obstacle)
        form = ReasonForm(request.POST if request.method == "POST" else None)
        if not form.is_valid():
            return self._ask(request, job, _("Cancel job"), "cancel_confirmation.html", form=form)
        return self._cancel(request, job, form.cleaned_data["reason"])

    def retry_view(
        self, request: HttpRequest, object_id: str, *, only_failed: bool = False
    ) -> HttpResponse:
        job = self.found(request, object_id)
        if not self.has_retry_permission(request, job):
            raise PermissionDenied
        if job is None:
            return self.not_found(request, object_id)
        obstacle_to = obstacle_to_retry_of_failed if only_failed else obstacle_to_retry
        if obstacle := obstacle_to(job):
            return self._state_changed(request, job, obstacle)
        if request.method != "POST":
            title = _("Retry failed items") if only_failed else _("Retry job")
            template = "retry_confirmation.html"
            return self._ask(request, job, title, template, only_failed=only_failed)
        return self._retry(request, job, only_failed)

    def retry_failed_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self.retry_view(request, object_id, only_failed=True)

    def _cancel(self, request: HttpRequest, job: Job, reason: str) -> HttpResponse:
        try:
            cancelled = self.cancel_for(request, job, reason)
        except JobsError as error:
            return self._refused(request, job, obstacle_to_cancel, error)
        if cancelled.is_terminal:
            self.message_user(request, _("The job was cancelled."), messages.SUCCESS)
        else:
            self.message_user(request, _("The job was asked to stop."), messages.SUCCESS)
        return self._page_of(job)

    def _retry(self, request: HttpRequest, job: Job, only_failed: bool) -> HttpResponse:
        try:
            again = self.retry_for(request, job, only_failed=only_failed)
        except JobsError as error:
            return self._refused(request, job, obstacle_to_retry, error)
        self.message_user(request, _("The job was ordered again: this is it."), messages.SUCCESS)
        return self._page_of(again)

    # -- the deeds, noted in Django's history --------------------------------------------------

    def cancel_for(self, request: HttpRequest, job: Job, reason: str = "") -> Job:
        cancelled = cancel_job(job.pk, actor=request.user, reason=reason)
        self.log_change(
            request, job, _("Cancelled.") if cancelled.is_terminal else _("Asked to stop.")
        )
        return cancelled

    def retry_for(self, request: HttpRequest, job: Job, *, only_failed: bool = False) -> Job:
        again = retry_job(job.pk, actor=request.user, only_failed=only_failed)
        self.log_change(request, job, _("Retried as job %(id)s.") % {"id": again.pk})
        return again

    # -- answers -------------------------------------------------------------------------------

    def _ask(
        self, request: HttpRequest, job: Job, title: str, template: str, **context: Any
    ) -> HttpResponse:
        request.current_app = self.admin_site.name
        return TemplateResponse(
            request,
            f"admin/django_jobs/job/{template}",
            {
                **self.admin_site.each_context(request),
                "title": title,
                "opts": self.opts,
                "job": job,
                "media": self.media,
                **context,
            },
        )

    def _state_changed(self, request: HttpRequest, job: Job, obstacle: str) -> HttpResponse:
        text = _("Nothing was done: the state of the job has changed. %(obstacle)s")
        self.message_user(request, text % {"obstacle": obstacle}, messages.WARNING)
        return self._page_of(job)

    def _refused(
        self,
        request: HttpRequest,
        job: Job,
        obstacle_to: Callable[[Job], str],
        error: JobsError,
    ) -> HttpResponse:
        """Say what stood in the way: the state that the job is in by now, or what was raised."""
        fresh = Job.objects.using(clock.alias_for_write()).filter(pk=job.pk).first()
        obstacle = obstacle_to(fresh) if fresh else ""
        if obstacle:
            return self._state_changed(request, job, obstacle)
        text = _("Nothing was done: %(error)s")
        self.message_user(request, text % {"error": error}, messages.WARNING)
        return self._page_of(job)

    def _page_of(self, job: Job) -> HttpResponse:
        return HttpResponseRedirect(self.address("django_jobs_job_change", job.pk))
