"""The job: one row that is queue, lock, state, progress and outcome, and the legal steps of it."""

from __future__ import annotations

import datetime as dt
from typing import Any, ClassVar

from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.utils.translation import gettext_lazy as _
from django_fsm import transition

from django_jobs.conf import conf
from django_jobs.exceptions import InvalidResult
from django_jobs.handlers import JobType, registry
from django_jobs.models import clock, persistence
from django_jobs.models.attempts import NEVER, NOBODY, new_external_worker
from django_jobs.models.constraints import JOB_CONSTRAINTS, JOB_INDEXES
from django_jobs.models.fields import DatabaseTimeField, StatusField, UUID7Field, uuid7_at
from django_jobs.models.guarded import GuardedModel
from django_jobs.models.querysets import JobManager
from django_jobs.models.transition import OWNER, JobTransition
from django_jobs.states import LIVE_STATES, FailureCode, JobStatus
from django_jobs.values import NotStorable, clean_error, clean_text, to_json

MAX_NAME = 50
MAX_PROGRESS_MESSAGE = 200


class Job(GuardedModel):
    """One piece of slow work that a user ordered.

    The transition methods change the job in memory, every dependent field included; ``save()``
    then writes them with their log in one transaction, and only if the row is still in the
    state, attempt and worker that were loaded; else it raises ``StaleJob``.
    """

    id = UUID7Field()
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="django_jobs", db_index=False
    )
    job_type = models.CharField(_("job type"), max_length=MAX_NAME)
    status = StatusField(
        _("status"),
        max_length=20,
        choices=JobStatus.choices,
        default=JobStatus.QUEUED,
        protected=True,
        editable=False,
    )
    progress = models.IntegerField(_("progress"), default=0)  # percent
    progress_message = models.CharField(
        _("progress message"), max_length=MAX_PROGRESS_MESSAGE, blank=True, default=""
    )
    error_message = models.TextField(_("error message"), blank=True, default="")
    failure_code = models.CharField(
        _("failure code"), max_length=30, blank=True, default="", choices=FailureCode.choices
    )
    parameters = models.JSONField(
        _("parameters"), default=dict, blank=True, encoder=DjangoJSONEncoder
    )
    result = models.JSONField(_("result"), null=True, blank=True, encoder=DjangoJSONEncoder)
    items_total = models.IntegerField(_("items"), default=0)
    items_succeeded = models.IntegerField(_("items succeeded"), default=0)
    items_failed = models.IntegerField(_("items failed"), default=0)
    #: The first failed items; see ``services.failed_items``.
    failed_items = models.JSONField(
        _("failed items"), default=list, blank=True, editable=False, encoder=DjangoJSONEncoder
    )
    #: The names of the items that this retry is about; NULL: all.
    items_to_retry = models.JSONField(
        _("items to retry"), null=True, blank=True, editable=False, encoder=DjangoJSONEncoder
    )

    queue = models.CharField(_("queue"), max_length=MAX_NAME, default="default")
    priority = models.SmallIntegerField(_("priority"), default=0)  # -100..100, higher first
    attempt = models.IntegerField(_("attempt"), default=0)
    max_attempts = models.IntegerField(_("attempts allowed"), default=1)
    worker = models.CharField(_("worker"), max_length=200, blank=True, default="")

    created_at = DatabaseTimeField(verbose_name=_("created at"))
    updated_at = DatabaseTimeField(verbose_name=_("updated at"))
    run_at = models.DateTimeField(_("not before"), null=True, blank=True)
    due_at = models.DateTimeField(_("due at"), null=True, editable=False)
    start_deadline_at = models.DateTimeField(_("start deadline"), null=True, editable=False)
    run_deadline_at = models.DateTimeField(_("run deadline"), null=True, editable=False)
    started_at = models.DateTimeField(_("started at"), null=True, editable=False)
    attempt_started_at = models.DateTimeField(_("attempt started at"), null=True, editable=False)
    completed_at = models.DateTimeField(_("completed at"), null=True, editable=False)
    cancel_requested_at = models.DateTimeField(_("cancel requested at"), null=True, editable=False)
    cancel_requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        null=True,
        blank=True,
        editable=False,
        related_name="+",
    )
    retry_of = models.OneToOneField(
        "self", models.SET_NULL, null=True, blank=True, editable=False, related_name="retried_by"
    )
    idempotency_key = models.CharField(  # noqa: DJ001 - NULL is none: "" would be unique
        _("idempotency key"), max_length=255, null=True, blank=True
    )
    version = models.IntegerField(_("version"), default=0, editable=False)

    objects: ClassVar[Any] = JobManager()

    #: Who ordered a new job, ``None`` for nobody in particular: the actor in its log's first line.
    ordered_by: Any = OWNER
    #: Whether ``create_job`` found this job by its idempotency key instead of making it.
    found_by_key = False

    class Meta:
        verbose_name = _("job")
        verbose_name_plural = _("jobs")
        constraints = JOB_CONSTRAINTS
        indexes = JOB_INDEXES

    def __str__(self) -> str:
        return f"{self.job_type} {self.pk}"

    # -- what is known of the job --------------------------------------------------------------

    @property
    def is_terminal(self) -> bool:
        """Whether nothing may follow. So too in an unknown state: rows may be older than rules."""
        return self.status not in LIVE_STATES

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for a worker: new, delayed or between attempts."""
        return not self.is_terminal and not self.worker

    @property
    def may_be_repeated(self) -> bool:
        """Whether the open attempt may be followed by another one."""
        return self.attempt < self.max_attempts and self.cancel_requested_at is None

    @property
    def type(self) -> JobType | None:
        """Its declared type, ``None`` where this process does not know it."""
        return registry.find(self.job_type)

    @property
    def estimated_completion(self) -> dt.datetime | None:
        """When it will have ended if it goes on at the pace of its open attempt so far.

        Never in the past, and never after the limit of the attempt, which ends it then. ``None``
        while that is unknown: no attempt is open, nothing or 100 is reported, it was asked to stop.
        """
        begun = self.attempt_started_at
        is_open = self.status == JobStatus.PROCESSING and not self.is_waiting
        if not is_open or begun is None or self.cancel_requested_at is not None:
            return None
        if not 0 < self.progress < 100:
            return None
        now = self._now()
        try:
            end = begun + (now - begun) * 100 / self.progress
        except OverflowError:  # beyond the calendar
            return None
        return max(now, end if self.run_deadline_at is None else min(end, self.run_deadline_at))

    # -- the legal steps -----------------------------------------------------------------------

    @transition(field=status, source=JobStatus.QUEUED, target=JobStatus.PROCESSING)
    def start(self, *, worker: str | None = None, lease: float = 0, actor: Any = None) -> None:
        """Open the first attempt, for ``worker`` and ``lease`` seconds.

        Without ``worker`` something else than our workers drives the job: the attempt is the last
        one, and its lease is the timeout of the type.
        """
        self._open_attempt(worker, lease)
        self._note(JobStatus.PROCESSING, actor=actor)

    @transition(field=status, source=JobStatus.QUEUED, target=JobStatus.PROCESSING)
    def withdraw(self, *, actor: Any = None) -> None:
        """Take the job out of the queue without an attempt, on its way to FAILED."""
        self._stop_waiting()
        self._note(JobStatus.PROCESSING, actor=actor)

    @transition(field=status, source=JobStatus.PROCESSING, target=None)
    def resume(self, *, worker: str, lease: float) -> None:
        """Open the next attempt of a job that waits between attempts."""
        self._open_attempt(worker, lease)
        self._note(JobStatus.PROCESSING)

    @transition(field=status, source=JobStatus.PROCESSING, target=None)
    def postpone(self, *, delay: float, code: str, message: str, detail: str = "") -> None:
        """End the open attempt; another one may start in ``delay`` seconds."""
        self.updated_at = self._now()
        self._note(
            JobStatus.PROCESSING, code=code, message=_error_text(message, code), detail=detail
        )
        self.worker = ""
        self.run_deadline_at = None
        self._wait_until(self.updated_at + dt.timedelta(seconds=delay))

    @transition(field=status, source=JobStatus.PROCESSING, target=JobStatus.COMPLETED)
    def complete(self, result: Any = None, *, actor: Any = None) -> None:
        """Everything went well. ``InvalidResult`` if ``result`` cannot be stored."""
        self.result = _storable_result(result)
        self.progress = 100
        self.error_message = self.failure_code = ""
        self._end()
        self._note(JobStatus.COMPLETED, actor=actor)

    @transition(field=status, source=JobStatus.PROCESSING, target=JobStatus.PARTIAL)
    def complete_partially(
        self, result: Any = None, error_message: str = "", *, actor: Any = None
    ) -> None:
        """Some of it went well. ``InvalidResult`` if ``result`` cannot be stored."""
        self.result = _storable_result(result)
        self.progress = 100
        self.failure_code = FailureCode.SOME_ITEMS_FAILED
        self.error_message = _error_text(error_message, self.failure_code)
        self._end()
        self._note(
            JobStatus.PARTIAL, code=self.failure_code, message=self.error_message, actor=actor
        )

    @transition(field=status, source=JobStatus.PROCESSING, target=JobStatus.FAILED)
    def fail(
        self,
        error_message: str,
        code: str = FailureCode.HANDLER_ERROR,
        *,
        detail: str = "",
        actor: Any = None,
    ) -> None:
        """It did not go well. A blank message becomes the standard sentence of ``code``."""
        self.failure_code = FailureCode(code)
        self.error_message = _error_text(error_message, code)
        self.result = None
        self._end()
        self._note(
            JobStatus.FAILED,
            code=self.failure_code,
            message=self.error_message,
            detail=detail,
            actor=actor,
        )

    @transition(field=status, source=JobStatus.PROCESSING, target=None)
    def request_cancel(self, *, actor: Any = None, reason: str = "") -> None:
        """Ask whoever runs the job to stop; the first one to ask is remembered."""
        self.cancel_requested_at = self.updated_at = self._now()
        self.cancel_requested_by = actor
        self._note(
            JobStatus.PROCESSING,
            code=FailureCode.CANCELLED,
            message=cancel_message(reason),
            actor=actor,
        )

    def report(self, progress: int, message: str | None = None) -> None:
        """Set the progress (whole percent) of a running job; it never goes back."""
        self.progress = max(self.progress, progress)
        if message is not None:
            self.progress_message = clean_text(message, MAX_PROGRESS_MESSAGE)
        self.updated_at = self._now()

    def keep_reports(self, **columns: Any) -> None:
        """Set what a handler reported last, in memory; it outlives ``forget_steps``."""
        self.report(columns.pop("progress"))
        self.__dict__.update(columns)
        self._reported = {**columns, "progress": self.progress}

    def lease_end(self, now: dt.datetime, lease: float) -> dt.datetime:
        """Return when a lease of ``lease`` seconds ends: never long after the run deadline."""
        end = now + dt.timedelta(seconds=lease)
        if self.run_deadline_at is None:
            return end
        return min(end, self.run_deadline_at + dt.timedelta(seconds=conf.GRACE))

    def renew_external_lease(self) -> None:
        """Push the lease of an attempt that something else drives by the timeout of the type."""
        self.due_at = self._external_lease_end(self._now())

    def prepare_to_wait(self) -> None:
        """Fill in when a new job may start, and until when it must have started."""
        self.updated_at = self.created_at
        if self.due_at is None:
            self._wait_until(max(self.created_at, self.run_at or self.created_at))

    # -- what the steps are made of ------------------------------------------------------------

    def _open_attempt(self, worker: str | None, lease: float) -> None:
        now = self._now()
        timeout = self._timeout()
        self.attempt += 1
        self.progress = self.items_total = self.items_succeeded = self.items_failed = 0
        self.progress_message = ""
        self.failed_items = []
        self.started_at = self.started_at or now
        self.attempt_started_at = now
        self.start_deadline_at = None
        self.updated_at = now
        if worker is None:
            self.worker = new_external_worker()
            self.max_attempts = self.attempt
            self.due_at = self._external_lease_end(now)
        else:
            self.worker = worker
            self.run_deadline_at = now + dt.timedelta(seconds=timeout) if timeout else None
            self.due_at = self.lease_end(now, lease)

    def _stop_waiting(self) -> None:
        self.worker = NOBODY
        self.start_deadline_at = None
        self.updated_at = self._now()

    def _end(self) -> None:
        now = self._now()
        self.worker = self.worker or NOBODY
        self.due_at = self.start_deadline_at = None
        self.completed_at = self.updated_at = now

    def _wait_until(self, due_at: dt.datetime) -> None:
        self.due_at = due_at
        known = self.type
        limit = known.queue_timeout if known else conf.DEFAULT_QUEUE_TIMEOUT
        self.start_deadline_at = None if limit is None else due_at + dt.timedelta(seconds=limit)

    def _timeout(self) -> float | None:
        known = self.type
        timeout: float | None = known.timeout if known else conf.DEFAULT_TIMEOUT
        return timeout

    def _external_lease_end(self, now: dt.datetime) -> dt.datetime:
        timeout = self._timeout()
        return now + (NEVER if timeout is None else dt.timedelta(seconds=timeout))

    def _now(self) -> dt.datetime:
        """The database's time, but after all that already happened to this job."""
        latest: dt.datetime = max(self.started_at or self.created_at, self.updated_at)
        return max(clock.now(persistence.alias_of(self)), latest + dt.timedelta(microseconds=1))

    def _note(self, to_status: JobStatus, *, actor: Any = None, **entry: Any) -> None:
        step = JobTransition(
            id=uuid7_at(self.updated_at, len(self._unsaved_log)),
            job_id=self.pk,
            from_status=self.status,
            to_status=to_status,
            attempt=self.attempt,
            worker=self.worker,
            actor=actor,
            created_at=self.updated_at,
            **entry,
        )
        self._unsaved_log = [*self._unsaved_log, step]  # a new list: copy.copy() shares the old


def cancel_message(reason: str) -> str:
    """Return the sentence that a user reads of a cancelled job."""
    standard = str(FailureCode.CANCELLED.label)
    cleaned = clean_error(reason)
    return f"{standard.rstrip('.')}: {cleaned}" if cleaned else standard


def _storable_result(result: Any) -> Any:
    try:
        return to_json(result, "result", max_bytes=conf.MAX_RESULT_BYTES)
    except NotStorable as error:
        raise InvalidResult(str(error)) from error


def _error_text(message: Any, code: str) -> str:
    return clean_error(message or "") or str(FailureCode(code).label)
