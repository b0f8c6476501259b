"""What a request to start a job must be like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.utils.translation import gettext as _
from rest_framework import serializers

from django_jobs.api.fields import MomentField, ParametersField
from django_jobs.api.permissions import check_may_start
from django_jobs.conf import conf
from django_jobs.handlers import registry
from django_jobs.models import Job
from django_jobs.services import create_job
from django_jobs.services.creation import checked_key, checked_run_at

LOWEST_PRIORITY = -100
Value = TypeVar("Value")


class JobOrderSerializer(serializers.Serializer[Job]):
    """An order; ``context`` holds the request. Whatever else a body holds is ignored."""

    job_type = serializers.CharField()
    parameters = ParametersField(required=False, allow_null=True)
    queue = serializers.CharField(required=False)
    run_at = MomentField(required=False, allow_null=True)

    def get_fields(self) -> dict[str, Any]:
        fields = super().get_fields()
        highest = conf.MAX_USER_PRIORITY
        fields["priority"] = serializers.IntegerField(
            min_value=LOWEST_PRIORITY, max_value=highest, default=min(0, highest)
        )
        return fields

    def validate_job_type(self, name: str) -> str:
        return check_may_start(self.context["request"].user, name).name

    def validate_run_at(self, moment: Any) -> Any:
        return _checked(checked_run_at, moment)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        queues = registry.get(attrs["job_type"]).user_queues
        if attrs.get("queue", queues[0]) not in queues:
            raise serializers.ValidationError({"queue": [_("The type does not use this queue.")]})
        return attrs

    def create(self, validated_data: dict[str, Any]) -> Job:
        request = self.context["request"]
        key = _checked(checked_key, request.headers.get("Idempotency-Key"), "idempotency_key")
        return create_job(request.user, **validated_data, idempotency_key=key)


class RetrySerializer(serializers.Serializer[Job]):
    """What a request to retry a job may say."""

    only_failed = serializers.BooleanField(default=False)


def _checked(check: Callable[[Value], Value], value: Value, field: str = "") -> Value:
    """Run a check of the services whose ``ValueError`` is about a field of the request."""
    try:
        return check(value)
    except ValueError as error:
        details = [str(error)]
        raise serializers.ValidationError({field: details} if field else details) from error
