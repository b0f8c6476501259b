"""Actions on many jobs: batch by batch, each job in a transaction of its own, all accounted for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import ProtectedError, RestrictedError
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_jobs.admin.steering import SteeringAdmin
from django_jobs.exceptions import JobsError
from django_jobs.models import Job
from django_jobs.services.deletion import delete_job
from django_jobs.services.obstacles import (
    obstacle_to_cancel,
    obstacle_to_delete,
    obstacle_to_retry,
)
from django_jobs.states import LIVE_STATES

BATCH = 200  # jobs in memory at a time
REASONS = 10  # shown in the message, the most frequent ones


class BulkAdmin(SteeringAdmin):
    """The actions of the list."""

    actions = ("cancel_selected", "retry_selected", "delete_selected")

    @admin.action(permissions=["cancel"], description=gettext_lazy("Cancel selected jobs"))
    def cancel_selected(self, request: HttpRequest, queryset: Any) -> None:
        def cancel(job: Job) -> str:
            obstacle = obstacle_to_cancel(job)
            if not obstacle:
                self.cancel_for(request, job)
            return obstacle

        done, skipped = _for_each(queryset, cancel)
        text = ngettext("%(count)d job was cancelled.", "%(count)d jobs were cancelled.", done)
        self._report(request, text, done, skipped)

    @admin.action(permissions=["retry"], description=gettext_lazy("Retry selected jobs"))
    def retry_selected(self, request: HttpRequest, queryset: Any) -> None:
        def retry(job: Job) -> str:
            obstacle = obstacle_to_retry(job)
            if not obstacle and not self.has_retry_permission(request, job):
                obstacle = _("You may not order jobs of the type %(name)s.") % {
                    "name": job.job_type
                }
            if not obstacle:
                self.retry_for(request, job)
            return obstacle

        done, skipped = _for_each(queryset, retry)
        text = ngettext(
            "%(count)d job was ordered again.", "%(count)d jobs were ordered again.", done
        )
        self._report(request, text, done, skipped)

    @admin.action(permissions=["delete"], description=gettext_lazy("Delete selected jobs"))
    def delete_selected(self, request: HttpRequest, queryset: Any) -> HttpResponse | None:
        if "post" not in request.POST:
            return self._ask_to_delete(request, queryset)
        done, skipped = _for_each(queryset, lambda job: self._delete(request, job))
        text = ngettext("%(count)d job was deleted.", "%(count)d jobs were deleted.", done)
        self._report(request, text, done, skipped)
        return None

    def _delete(self, request: HttpRequest, job: Job) -> str:
        if obstacle := obstacle_to_delete(job):
            return obstacle
        _objects, _count, lacking, protected = self.get_deleted_objects([job], request)
        if lacking:
            names = ", ".join(sorted(map(str, lacking)))
            return _("You may not delete what goes with the job: %(names)s.") % {"names": names}
        if protected:
            return _("Other objects need the job.")
        delete_job(job.pk)
        self.log_deletions(request, [job])  # type: ignore[arg-type]
        return ""

    def _ask_to_delete(self, request: HttpRequest, queryset: Any) -> HttpResponse:
        """A page with the numbers; it sends back the selection as it came."""
        request.current_app = self.admin_site.name
        live = queryset.filter(status__in=LIVE_STATES).count()
        return TemplateResponse(
            request,
            "admin/django_jobs/job/delete_selected_confirmation.html",
            {
                **self.admin_site.each_context(request),
                "title": _("Delete jobs"),
                "opts": self.opts,
                "media": self.media,
                "deleted": queryset.count() - live,
                "live": live,
                "selected": request.POST.getlist(ACTION_CHECKBOX_NAME),
                "select_across": request.POST.get("select_across", "0"),
                "action_checkbox_name": ACTION_CHECKBOX_NAME,
            },
        )

    def _report(self, request: HttpRequest, text: str, done: int, skipped: Counter[str]) -> None:
        if done or not skipped:
            self.message_user(request, text % {"count": done}, messages.SUCCESS)
        if skipped:
            self.message_user(request, _in_words(skipped), messages.WARNING)


def _for_each(queryset: Any, deed: Callable[[Job], str]) -> tuple[int, Counter[str]]:
    """Do something to each job; return how many it was done to, and why not to the others.

    ``deed`` returns a reason to skip the job, or "".
    """
    done = 0
    skipped: Counter[str] = Counter()
    for job in _newest_first(queryset):
        try:
            reason = deed(job)
        except JobsError as error:  # it moved on since its batch was read
            reason = str(error)
        except (ProtectedError, RestrictedError):
            reason = _("Other objects need the job.")
        if reason:
            skipped[reason] += 1
        else:
            done += 1
    return done, skipped


def _newest_first(queryset: Any) -> Iterator[Job]:
    """Yield the jobs, a batch in memory at a time; jobs that are made meanwhile are not met."""
    rows = queryset.order_by("-pk")
    batch = list(rows[:BATCH])
    while batch:
        yield from batch
        batch = list(rows.filter(pk__lt=batch[-1].pk)[:BATCH])


def _in_words(skipped: Counter[str]) -> str:
    count = skipped.total()
    text = ngettext("%(count)d job was skipped.", "%(count)d jobs were skipped.", count)
    reasons = [f"{number}: {reason}" for reason, number in skipped.most_common(REASONS)]
    if len(skipped) > REASONS:
        reasons.append("…")
    return " ".join([text % {"count": count}, *reasons])
