"""The types of job that the caller may start, over the API."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from django_jobs.api.base import JobsViewSet
from django_jobs.api.serializers import JobTypeSerializer
from django_jobs.handlers import registry


class JobTypeViewSet(JobsViewSet):
    """The types of job that you may start."""

    resource = "job-type"
    serializer_class = JobTypeSerializer
    pagination_class = None
    filter_backends = []
    lookup_field = "name"
    lookup_value_regex = ".+"  # names have dots and slashes

    def get_queryset(self) -> Any:
        return [found for found in registry if found.may_be_started_by(self.request.user)]

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return Response(self.get_serializer(self.get_queryset(), many=True).data)

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        for job_type in self.get_queryset():
            if job_type.name == kwargs["name"]:
                return Response(self.get_serializer(job_type).data)
        raise NotFound
