"""Fields of serializers."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.conf import settings
from django.utils import timezone
from rest_framework import serializers
from rest_framework.fields import empty


class MomentField(serializers.DateTimeField):
    """A moment with its offset, in projects without USE_TZ too.

    DRF would give times without an offset there, and keep an aware one as if it were local.
    """

    def enforce_timezone(self, value: dt.datetime) -> dt.datetime:
        if settings.USE_TZ:
            return super().enforce_timezone(value)
        return value if timezone.is_aware(value) else timezone.make_aware(value)


class ParametersField(serializers.JSONField):
    """Any JSON; the job type says what it must be. An empty field of a form is no parameters."""

    def get_value(self, dictionary: Any) -> Any:
        value = super().get_value(dictionary)
        is_blank = getattr(value, "is_json_string", False) and not value.strip()
        return empty if is_blank else value

    def to_internal_value(self, data: Any) -> Any:
        try:
            return super().to_internal_value(data)
        except RecursionError:
            self.fail("invalid")
