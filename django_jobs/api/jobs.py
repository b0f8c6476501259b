"""Jobs over the API."""

from __future__ import annotations

from typing import Any

from rest_framework import status
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer, Serializer

from django_jobs.api.base import JobsViewSet
from django_jobs.api.filters import JobFilter
from django_jobs.api.orders import JobOrderSerializer, RetrySerializer
from django_jobs.api.pagination import OldestFirst
from django_jobs.api.permissions import check_may_start
from django_jobs.api.serializers import (
    AssetSerializer,
    JobSerializer,
    JobSummarySerializer,
    JobTransitionSerializer,
)
from django_jobs.api.visibility import OwnedMixin
from django_jobs.models import Asset, Job, JobTransition
from django_jobs.services import cancel_job, retry_job
from django_jobs.services.deletion import delete_job

LARGE = ("parameters", "result", "failed_items", "items_to_retry")  # not in lists


class JobViewSet(OwnedMixin, ListModelMixin, RetrieveModelMixin, JobsViewSet):
    """Jobs: started by a POST, then polled until they are done."""

    resource = "job"
    queryset = Job.objects.all()
    filterset_class = JobFilter
    serializer_class = JobSerializer
    serializer_classes: dict[str, type[BaseSerializer[Any]]] = {
        "list": JobSummarySerializer,
        "create": JobOrderSerializer,
        "cancel": Serializer,
        "retry": RetrySerializer,
        "transitions": JobTransitionSerializer,
        "assets": AssetSerializer,
    }

    def get_serializer_class(self) -> type[BaseSerializer[Any]]:
        # OPTIONS describes what a POST takes
        action = self.action_map.get("post", "") if self.action == "metadata" else self.action
        return self.serializer_classes.get(action, self.serializer_class)

    def get_queryset(self) -> Any:
        queryset = super().get_queryset()
        return queryset.defer(*LARGE) if self.action == "list" else queryset

    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        order = self.get_serializer(data=request.data)
        order.is_valid(raise_exception=True)
        job = order.save()
        return self._answer(
            job, status.HTTP_200_OK if job.found_by_key else status.HTTP_202_ACCEPTED
        )

    def destroy(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        delete_job(self.get_object().pk)
        return Response(status=status.HTTP_204_NO_CONTENT)

    @action(detail=True, methods=["post"], filter_backends=[])
    def cancel(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        job = self.get_object()
        was_asked = job.cancel_requested_at is not None
        job = cancel_job(job.pk, actor=request.user)
        is_settled = was_asked or job.is_terminal
        return self._answer(job, status.HTTP_200_OK if is_settled else status.HTTP_202_ACCEPTED)

    @action(detail=True, methods=["post"], filter_backends=[])
    def retry(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        job = self.get_object()
        check_may_start(request.user, job.job_type)
        wish = self.get_serializer(data=request.data)
        wish.is_valid(raise_exception=True)
        again = retry_job(job.pk, actor=request.user, **wish.validated_data)
        return self._answer(again, status.HTTP_202_ACCEPTED)

    @action(detail=True, filter_backends=[], pagination_class=OldestFirst)
    def transitions(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return self._page(JobTransition.objects.filter(job=self.get_object()))

    @action(detail=True, filter_backends=[], pagination_class=OldestFirst)
    def assets(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return self._page(Asset.objects.filter(job=self.get_object()))

    def _answer(self, job: Job, status_code: int) -> Response:
        body = JobSerializer(job, context=self.get_serializer_context()).data
        location = self.link("detail", job.pk, job.user_id)
        return Response(body, status_code, headers={"Location": location})

    def _page(self, queryset: Any) -> Response:
        page = self.paginate_queryset(queryset)
        return self.get_paginated_response(self.get_serializer(page, many=True).data)
