"""Whose jobs and assets a request is about: the one place that knows.

Everybody sees their own and nobody else's; the rest is a 404, the same as for what does not exist.
Staff with ``view_job`` see those of another user by ``?user=<key>``; to change them they need
``change_job``, to delete them ``delete_job``.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError as DjangoValidationError
from django.http import Http404
from django.utils.translation import gettext as _
from rest_framework.exceptions import NotFound, PermissionDenied, ValidationError
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request

PARAMETER = "user"
SEEING_OTHERS = "django_jobs.view_job"
CHANGING_OTHERS = {"POST": "django_jobs.change_job", "DELETE": "django_jobs.delete_job"}


def sees_others(user: Any) -> bool:
    """Say whether ``user`` is staff who may see the jobs of others, and what is for staff only."""
    return bool(getattr(user, "is_staff", False) and user.has_perm(SEEING_OTHERS))


def owner_asked_for(request: Request) -> Any:
    """Return the key of the user whose objects ``request`` is about."""
    asked = request.query_params.get(PARAMETER)
    if not asked or not sees_others(request.user):
        return request.user.pk
    return _user_key(asked)


def query_for_owner(request: Request, owner_id: Any) -> str:
    """Return what a link to an object of ``owner_id`` ends with, so that the caller may follow it.

    ``None`` is what belongs to nobody.
    """
    return "" if owner_id in (None, request.user.pk) else f"?{urlencode({PARAMETER: owner_id})}"


class OwnedMixin(GenericAPIView[Any]):
    """Narrows a viewset to the objects that the request may see, by their ``user``."""

    def get_queryset(self) -> Any:
        return super().get_queryset().filter(user_id=owner_asked_for(self.request))

    def get_object(self) -> Any:
        try:
            found = super().get_object()
        except Http404:
            raise NotFound from None  # DRF's text would tell absent ids from malformed ones
        needed = CHANGING_OTHERS.get(self.request.method or "")
        if needed and found.user_id != self.request.user.pk and not self._has(needed):
            raise PermissionDenied
        return found

    def _has(self, permission: str) -> bool:
        return bool(self.request.user.has_perm(permission))


def _user_key(text: str) -> Any:
    field = get_user_model()._meta.pk
    try:
        if "\x00" in text:
            raise DjangoValidationError("NUL")
        return field.clean(text, None)
    except DjangoValidationError as error:
        raise ValidationError({PARAMETER: [_("This is not the key of a user.")]}) from error
