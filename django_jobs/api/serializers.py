"""How jobs, their logs, assets and types look from outside.

``staff_fields`` are given to staff with ``view_job`` only.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypedDict

from django.db import models
from rest_framework import serializers
from rest_framework.metadata import SimpleMetadata

from django_jobs.api.fields import MomentField
from django_jobs.api.visibility import sees_others
from django_jobs.handlers import JobType
from django_jobs.models import Asset, Job, JobTransition
from django_jobs.services.assets import checked_url


class Items(TypedDict):
    total: int
    succeeded: int
    failed: int


class JobError(TypedDict):
    code: str
    message: str
    attempt: int


class OutputSerializer(serializers.ModelSerializer[Any]):
    """A model as it is shown; ``context`` holds the request and the view, which makes links."""

    serializer_field_mapping: ClassVar[Any] = {
        **serializers.ModelSerializer.serializer_field_mapping,
        models.DateTimeField: MomentField,
    }

    def get_fields(self) -> dict[str, Any]:
        fields = super().get_fields()
        if not sees_others(self.context["request"].user):
            for name in getattr(self.Meta, "staff_fields", ()):
                del fields[name]
        return fields


class JobSummarySerializer(OutputSerializer):
    """A job in a list: without parameters and result, which may be large."""

    done = serializers.BooleanField(source="is_terminal", read_only=True)
    estimated_completion = MomentField(read_only=True, allow_null=True)
    items = serializers.SerializerMethodField()
    error = serializers.SerializerMethodField()
    urls = serializers.SerializerMethodField()

    class Meta:
        model = Job
        staff_fields = ("user", "worker")
        fields: ClassVar[Any] = (
            "id",
            "job_type",
            "status",
            "done",
            "progress",
            "progress_message",
            "estimated_completion",
            "items",
            "error",
            "attempt",
            "max_attempts",
            "queue",
            "priority",
            "run_at",
            "created_at",
            "started_at",
            "completed_at",
            "urls",
            *staff_fields,
        )
        read_only_fields: ClassVar[Any] = fields

    def get_items(self, job: Job) -> Items:
        return {
            "total": job.items_total,
            "succeeded": job.items_succeeded,
            "failed": job.items_failed,
        }

    def get_error(self, job: Job) -> JobError | None:
        if not job.failure_code:
            return None
        return {"code": job.failure_code, "message": job.error_message, "attempt": job.attempt}

    def get_urls(self, job: Job) -> dict[str, str]:
        link = self.context["view"].link
        actions = ("cancel", "retry", "transitions", "assets")
        return {
            "self": link("detail", job.pk, job.user_id),
            **{action: link(action, job.pk, job.user_id) for action in actions},
        }


class JobSerializer(JobSummarySerializer):
    """A job with its parameters, its result and its (first) failed items."""

    class Meta(JobSummarySerializer.Meta):
        fields = (
            *JobSummarySerializer.Meta.fields,
            "parameters",
            "items_to_retry",
            "result",
            "failed_items",
        )
        read_only_fields = fields


class JobTransitionSerializer(OutputSerializer):
    """One line of the log of a job."""

    class Meta:
        model = JobTransition
        staff_fields = ("actor", "worker", "detail")
        fields = (
            "id",
            "from_status",
            "to_status",
            "attempt",
            "code",
            "message",
            "created_at",
            *staff_fields,
        )
        read_only_fields = fields


class AssetSerializer(OutputSerializer):
    """What a job made; where it is stored is nobody's business."""

    url = serializers.SerializerMethodField()
    urls = serializers.SerializerMethodField()

    class Meta:
        model = Asset
        staff_fields = ("user",)
        fields = (
            "id",
            "job",
            "name",
            "asset_type",
            "content_type",
            "file_size",
            "checksum",
            "url",
            "created_at",
            "urls",
            *staff_fields,
        )
        read_only_fields = fields

    def get_url(self, asset: Asset) -> str:
        """Return the address; none that is not safe as a link, whoever wrote it into the row."""
        try:
            return checked_url(asset.url)
        except ValueError:
            return ""

    def get_urls(self, asset: Asset) -> dict[str, str | None]:
        link_to = self.context["view"].link_to
        return {
            "self": link_to("asset", "detail", asset.pk, asset.user_id),
            "download": link_to("asset", "download", asset.pk, asset.user_id),
            "job": link_to("job", "detail", asset.job_id, asset.user_id),
        }


class JobTypeSerializer(serializers.Serializer[JobType]):
    """A type of job and what it wants to know."""

    name = serializers.CharField(read_only=True)
    title = serializers.SerializerMethodField()
    description = serializers.CharField(read_only=True)
    queue = serializers.CharField(read_only=True)
    timeout = serializers.FloatField(read_only=True)
    max_attempts = serializers.IntegerField(read_only=True)
    retry_failed_items = serializers.BooleanField(read_only=True)
    parameters = serializers.SerializerMethodField()
    urls = serializers.SerializerMethodField()

    def get_title(self, job_type: JobType) -> str:
        return str(job_type.title or job_type.name)

    def get_parameters(self, job_type: JobType) -> dict[str, Any] | None:
        """Return each parameter by name; ``None`` if any JSON object will do."""
        if job_type.parameters is None:
            return None
        described = SimpleMetadata().get_serializer_info(job_type.parameters())
        return {name: info for name, info in described.items() if not info["read_only"]}

    def get_urls(self, job_type: JobType) -> dict[str, str]:
        return {"self": self.context["view"].link("detail", job_type.name)}
