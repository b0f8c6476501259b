"""Assets over the API."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponseBase
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request

from django_jobs.api.base import JobsViewSet
from django_jobs.api.downloads import AnyAccept, answer_with
from django_jobs.api.filters import AssetFilter
from django_jobs.api.serializers import AssetSerializer
from django_jobs.api.visibility import OwnedMixin
from django_jobs.models import Asset


class AssetViewSet(OwnedMixin, ListModelMixin, RetrieveModelMixin, JobsViewSet):
    """What jobs made: files to download, and links."""

    resource = "asset"
    queryset = Asset.objects.all()
    filterset_class = AssetFilter
    serializer_class = AssetSerializer

    @action(detail=True, filter_backends=[], content_negotiation_class=AnyAccept)
    def download(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return answer_with(self.get_object(), request)
