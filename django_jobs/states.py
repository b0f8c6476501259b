"""The five states of a job, the legal steps between them, and why a job failed."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class JobStatus(models.TextChoices):
    QUEUED = "queued", _("queued")
    PROCESSING = "processing", _("processing")
    COMPLETED = "completed", _("completed")
    FAILED = "failed", _("failed")
    PARTIAL = "partial", _("partial")


VALID_TRANSITIONS: dict[JobStatus, tuple[JobStatus, ...]] = {
    JobStatus.QUEUED: (JobStatus.PROCESSING,),
    JobStatus.PROCESSING: (JobStatus.COMPLETED, JobStatus.PARTIAL, JobStatus.FAILED),
    JobStatus.COMPLETED: (),
    JobStatus.FAILED: (),
    JobStatus.PARTIAL: (),
}

TERMINAL_STATES = tuple(status for status, targets in VALID_TRANSITIONS.items() if not targets)
LIVE_STATES = tuple(status for status, targets in VALID_TRANSITIONS.items() if targets)


def is_terminal_state(status: str) -> bool:
    """Say whether nothing may follow ``status``. An unknown status raises ``ValueError``."""
    return not VALID_TRANSITIONS[JobStatus(status)]


class FailureCode(models.TextChoices):
    """Why a job ended FAILED (or PARTIAL). The label is the sentence a user reads by default."""

    HANDLER_ERROR = "handler_error", _("The job failed because of an error in its handler.")
    TIMED_OUT = "timed_out", _("The job took longer than it may.")
    WORKER_LOST = "worker_lost", _("The worker that ran the job was lost.")
    NEVER_STARTED = "never_started", _("No worker took up the job in time.")
    CANCELLED = "cancelled", _("The job was cancelled.")
    SHUTDOWN = "shutdown", _("The worker was shut down before the job was done.")
    UNKNOWN_JOB_TYPE = "unknown_job_type", _("No worker knows this type of job.")
    INVALID_PARAMETERS = "invalid_parameters", _("The parameters of the job are not valid.")
    INVALID_RESULT = "invalid_result", _("The result of the job cannot be stored.")
    ALL_ITEMS_FAILED = "all_items_failed", _("Every item of the job failed.")
    SOME_ITEMS_FAILED = "some_items_failed", _("Some items of the job failed.")


RETRYABLE_CODES = frozenset(
    {
        FailureCode.HANDLER_ERROR,
        FailureCode.TIMED_OUT,
        FailureCode.WORKER_LOST,
        FailureCode.SHUTDOWN,
    }
)
