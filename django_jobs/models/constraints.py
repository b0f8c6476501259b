"""Rows that the database itself refuses, by name, on every backend; and the indexes.

No conditional constraint or index: MariaDB ignores them.
"""

from __future__ import annotations

from django.db.models import BaseConstraint, CheckConstraint, Index, Q, UniqueConstraint

from django_jobs.states import LIVE_STATES, TERMINAL_STATES, JobStatus

_TERMINAL = Q(status__in=[str(status) for status in TERMINAL_STATES])
_LIVE = Q(status__in=[str(status) for status in LIVE_STATES])


def _unless(status: JobStatus, condition: Q) -> Q:
    return ~Q(status=str(status)) | condition


JOB_CONSTRAINTS: list[BaseConstraint] = [
    CheckConstraint(
        condition=Q(status__in=[str(status) for status in JobStatus]),
        name="django_jobs_valid_status",
    ),
    CheckConstraint(
        condition=Q(progress__gte=0, progress__lte=100), name="django_jobs_valid_progress"
    ),
    CheckConstraint(
        condition=_unless(JobStatus.QUEUED, Q(worker="")), name="django_jobs_queued_has_no_worker"
    ),
    CheckConstraint(condition=_LIVE | ~Q(worker=""), name="django_jobs_terminal_does_not_wait"),
    CheckConstraint(
        condition=(_TERMINAL & Q(completed_at__isnull=False, due_at__isnull=True))
        | (_LIVE & Q(completed_at__isnull=True, due_at__isnull=False)),
        name="django_jobs_terminal_is_completed",
    ),
    CheckConstraint(
        condition=_unless(JobStatus.FAILED, ~Q(error_message="") & ~Q(failure_code="")),
        name="django_jobs_failed_has_reason",
    ),
    CheckConstraint(
        condition=_unless(JobStatus.COMPLETED, Q(progress=100, error_message="", failure_code="")),
        name="django_jobs_completed_is_whole",
    ),
    CheckConstraint(
        condition=_unless(JobStatus.PARTIAL, Q(progress=100)), name="django_jobs_partial_is_done"
    ),
    CheckConstraint(
        condition=Q(
            attempt__gte=0,
            max_attempts__gte=1,
            items_total__gte=0,
            items_succeeded__gte=0,
            items_failed__gte=0,
            version__gte=0,
        ),
        name="django_jobs_valid_counts",
    ),
    CheckConstraint(
        condition=Q(priority__gte=-100, priority__lte=100), name="django_jobs_valid_priority"
    ),
    UniqueConstraint(fields=["idempotency_key", "user"], name="django_jobs_idempotency_key"),
]

JOB_INDEXES = [
    Index(fields=["user", "status"], name="django_jobs_user_status"),
    # what waits (worker = ''), in the order in which it is claimed
    Index(fields=["worker", "-priority", "due_at", "id"], name="django_jobs_claim"),
    # what a settler looks for: leases that lapsed, waits that lasted too long
    Index(fields=["status", "due_at"], name="django_jobs_status_due"),
    Index(fields=["start_deadline_at"], name="django_jobs_start_deadline"),
    # what may be pruned, in the order in which it is: each batch from where the last one ended
    Index(fields=["completed_at", "id"], name="django_jobs_completed"),
]
