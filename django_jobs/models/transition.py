"""The log: one row for each step of a job, written in the transaction of the step."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from django_jobs.exceptions import JobsError
from django_jobs.models.fields import DatabaseTimeField, UUID7Field, uuid7_at
from django_jobs.states import FailureCode, JobStatus

if TYPE_CHECKING:
    from django_jobs.models.job import Job

#: As ``Job.ordered_by``: nobody else than the owner of the job ordered it.
OWNER: Final = object()
_ONLY_GROWS = "The log of a job only grows: its rows do not change."


class JobTransitionQuerySet(models.QuerySet["JobTransition"]):
    """The log only grows: bulk changes are refused."""

    def update(self, **values: Any) -> int:
        raise JobsError(_ONLY_GROWS)

    update.alters_data = True  # type: ignore[attr-defined]

    def bulk_update(self, *args: Any, **options: Any) -> int:
        raise JobsError(_ONLY_GROWS)

    bulk_update.alters_data = True  # type: ignore[attr-defined]

    def bulk_create(
        self,
        objs: Iterable[JobTransition],
        batch_size: int | None = None,
        ignore_conflicts: bool = False,
        update_conflicts: bool = False,
        update_fields: Collection[str] | None = None,
        unique_fields: Collection[str] | None = None,
    ) -> list[JobTransition]:
        if ignore_conflicts or update_conflicts:
            raise JobsError(_ONLY_GROWS)
        return super().bulk_create(objs, batch_size)

    bulk_create.alters_data = True  # type: ignore[attr-defined]


class JobTransition(models.Model):
    """One step of one job. Its key, made before the step is first tried, is the step's receipt.

    The keys of the steps of a job sort as the steps do, on whatever hosts they were taken.
    """

    id = UUID7Field()
    job = models.ForeignKey(
        "django_jobs.Job", models.CASCADE, related_name="transitions", db_index=False
    )
    from_status = models.CharField(_("from"), max_length=20, blank=True, choices=JobStatus.choices)
    to_status = models.CharField(_("to"), max_length=20, choices=JobStatus.choices)
    attempt = models.IntegerField(_("attempt"), default=0)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+"
    )
    worker = models.CharField(_("worker"), max_length=200, blank=True, default="")
    code = models.CharField(_("code"), max_length=30, blank=True, choices=FailureCode.choices)
    message = models.TextField(_("message"), blank=True, default="")
    detail = models.TextField(_("detail"), blank=True, default="")  # a traceback: for staff only
    created_at = DatabaseTimeField(verbose_name=_("at"))

    objects = models.Manager.from_queryset(JobTransitionQuerySet)()

    class Meta:
        verbose_name = _("job transition")
        verbose_name_plural = _("job transitions")
        indexes = [models.Index(fields=["job", "id"], name="django_jobs_transition_job")]

    def __str__(self) -> str:
        return f"{self.from_status or '-'} → {self.to_status}"

    def save(self, **options: Any) -> None:
        """Insert the row. The log only grows: a row that exists is never changed."""
        if not self._state.adding:
            raise JobsError(_ONLY_GROWS)
        super().save(**{**options, "force_insert": True})

    @classmethod
    def of_creation(cls, job: Job) -> JobTransition:
        """The first line of a job's log; its actor is who ordered the job."""
        orderer = job.ordered_by
        return cls(
            id=uuid7_at(job.created_at),
            job_id=job.pk,
            to_status=JobStatus.QUEUED,
            actor_id=job.user_id if orderer is OWNER else getattr(orderer, "pk", None),
            created_at=job.created_at,
        )
