"""What all viewsets of the API have in common."""

from __future__ import annotations

from typing import Any

from django.urls import NoReverseMatch
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework.permissions import IsAuthenticated
from rest_framework.response import Response
from rest_framework.reverse import reverse
from rest_framework.viewsets import GenericViewSet

from django_jobs.api.errors import add_code, as_api_error
from django_jobs.api.pagination import NewestFirst
from django_jobs.api.parsers import FormParser, JSONParser, MultiPartParser
from django_jobs.api.visibility import query_for_owner


class JobsViewSet(GenericViewSet[Any]):
    # Hooks for a project. `permission_classes` decides who gets in at all; whose objects they see
    # there is decided in `visibility`, and who may start a job by the `permission` of its type.
    permission_classes = [IsAuthenticated]
    parser_classes = [JSONParser, FormParser, MultiPartParser]
    pagination_class: type[NewestFirst] | None = NewestFirst
    filter_backends = [DjangoFilterBackend]
    #: The basenames of the other viewsets, should a router of the project's own have other ones.
    basenames = {"job": "job", "asset": "asset"}
    resource: str

    def link(self, action: str, key: Any, owner_id: Any = None) -> str:
        """Return the address of an action of this viewset on the object ``key``."""
        lookup = self.lookup_url_kwarg or self.lookup_field
        url = self.reverse_action(action, kwargs={lookup: key})
        return f"{url}{query_for_owner(self.request, owner_id)}"

    def link_to(self, resource: str, action: str, key: Any, owner_id: Any) -> str | None:
        """Return the address of an action on any resource; ``None`` if it has no routes."""
        if resource == self.resource:
            return self.link(action, key, owner_id)
        namespace = getattr(self.request.resolver_match, "namespace", "")
        name = f"{self.basenames[resource]}-{action}"
        name = f"{namespace}:{name}" if namespace else name
        try:
            url = reverse(name, kwargs={"pk": key}, request=self.request)
        except NoReverseMatch:
            return None
        return f"{url}{query_for_owner(self.request, owner_id)}"

    def handle_exception(self, exc: Exception) -> Response:
        response = super().handle_exception(as_api_error(exc))
        add_code(response)
        return response
