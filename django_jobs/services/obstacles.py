"""Why a job cannot be cancelled, retried or deleted now: for whoever offers these to people.

Each function returns a sentence, or "" if nothing stands in the way. Only the service itself
decides: the job may move on between the question and the deed.
"""

from __future__ import annotations

from django.utils.translation import gettext as _

from django_jobs.exceptions import JobNotRetryable
from django_jobs.models import Job
from django_jobs.services.failed_items import check_failed_items
from django_jobs.services.steering import RETRYABLE_STATES
from django_jobs.states import LIVE_STATES

_CANCELLING_STEPS = {"withdraw", "request_cancel"}


def obstacle_to_cancel(job: Job) -> str:
    steps = {step.name for step in job.get_available_status_transitions()}  # type: ignore[attr-defined]
    if not steps & _CANCELLING_STEPS:
        return _is_now(job)
    if job.cancel_requested_at is not None:
        return _("The job has been asked to stop already.")
    return ""


def obstacle_to_retry(job: Job) -> str:
    """Costs a query for a job that has failed."""
    if job.status not in RETRYABLE_STATES:
        return _is_now(job)
    if job.type is None:
        return _("There is no type of job called %(name)s.") % {"name": job.job_type}
    if hasattr(job, "retried_by"):
        return _("The job was retried already.")
    return ""


def obstacle_to_retry_of_failed(job: Job) -> str:
    """As ``obstacle_to_retry``, of the failed items alone."""
    if obstacle := obstacle_to_retry(job):
        return obstacle
    try:
        check_failed_items(job)
    except JobNotRetryable as error:
        return str(error)
    return ""


def obstacle_to_delete(job: Job) -> str:
    return _is_now(job) if job.status in LIVE_STATES else ""


def _is_now(job: Job) -> str:
    return _("The job is %(status)s.") % {"status": job.get_status_display()}
