"""Parameters of a job: checked and stored at creation, checked and revived in the worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from django.utils.translation import gettext as _

from django_jobs.conf import conf
from django_jobs.exceptions import InvalidParameters
from django_jobs.handlers.job_type import JobType
from django_jobs.values import NotStorable, to_json

if TYPE_CHECKING:
    from rest_framework.serializers import Serializer

NON_FIELD_ERRORS = "non_field_errors"
_ABSENT: Any = object()


def stored_parameters(job_type: JobType, parameters: Any) -> dict[str, Any]:
    """Return the JSON to store for ``parameters`` (a mapping, or ``None`` for none).

    Raises ``InvalidParameters`` with errors per field.
    """
    given = _storable(_as_mapping(parameters))
    if job_type.parameters is None:
        return given
    serializer, validated = _validated(job_type, given)
    stored = _storable(_represented(serializer, validated))
    _check_reading_back(job_type, stored)
    return stored


def revived_parameters(job_type: JobType, stored: Any) -> dict[str, Any]:
    """Return stored parameters as the handler wants them: with dates as dates.

    Raises ``InvalidParameters`` if they are no longer valid, as after a deploy.
    """
    given = _as_mapping(stored)
    if job_type.parameters is None:
        return dict(given)
    return dict(_validated(job_type, given)[1])


def _as_mapping(parameters: Any) -> Mapping[str, Any]:
    if parameters is None:
        return {}
    if not isinstance(parameters, Mapping):
        kind = type(parameters).__name__
        raise InvalidParameters(
            {NON_FIELD_ERRORS: [_("An object with named values is needed, not a %s.") % kind]}
        )
    return parameters


def _storable(parameters: Mapping[str, Any]) -> dict[str, Any]:
    try:
        stored: dict[str, Any] = to_json(
            parameters, "parameters", max_bytes=conf.MAX_PARAMETERS_BYTES
        )
    except NotStorable as error:
        raise InvalidParameters({NON_FIELD_ERRORS: [str(error)]}) from error
    return stored


def _validated(job_type: JobType, given: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    serializer_class = cast("type[Serializer[Any]]", job_type.parameters)
    serializer = serializer_class(data=dict(given))
    if not serializer.is_valid():
        raise InvalidParameters(_plain_errors(serializer.errors))
    validated: Mapping[str, Any] = serializer.validated_data
    return serializer, validated


def _check_reading_back(job_type: JobType, stored: dict[str, Any]) -> None:
    """Refuse now what would fail, or be another value, when the worker reads it.

    Fields may write a format that they do not read, or read otherwise: 03/04 for 04/03.
    """
    try:
        serializer, validated = _validated(job_type, stored)
    except InvalidParameters as error:
        unreadable = error.errors if isinstance(error.errors, Mapping) else {}
        names = [name for name in stored if name in unreadable] or [NON_FIELD_ERRORS]
    else:
        again = _storable(_represented(serializer, validated))
        names = [name for name in stored if again.get(name, _ABSENT) != stored[name]]
    if names:
        text = _("The type of job cannot read back what it stores of this value.")
        raise InvalidParameters({name: [text] for name in names})


def _plain_errors(errors: Any) -> Any:
    """Return DRF's errors with texts for its ``ErrorDetail``s, whose repr no user should read."""
    if isinstance(errors, Mapping):
        return {name: _plain_errors(inner) for name, inner in errors.items()}
    return [_plain_errors(inner) for inner in errors] if isinstance(errors, list) else str(errors)


def _represented(serializer: Any, validated: Mapping[str, Any]) -> dict[str, Any]:
    """Turn validated values back into primitives, field by field, so that they validate again.

    Not ``serializer.data``: that leaves out write-only fields, at any depth.
    """
    # rest_framework reads settings of the host when imported: only when a type needs it.
    from rest_framework.fields import HiddenField

    represented = {}
    for name, field in serializer.fields.items():
        if field.read_only or isinstance(field, HiddenField):
            continue
        value = _validated_value(validated, field.source_attrs)
        if value is not _ABSENT:
            represented[name] = _represented_field(field, value)
    return represented


def _represented_field(field: Any, value: Any) -> Any:
    from rest_framework.serializers import ListSerializer, Serializer  # as above

    if value is None:
        return None
    if isinstance(field, ListSerializer):
        return [_represented_field(field.child, element) for element in value]
    if isinstance(field, Serializer):
        return _represented(field, value)
    return field.to_representation(value)


def _validated_value(validated: Any, source: list[str]) -> Any:
    for key in source:
        if not isinstance(validated, Mapping) or key not in validated:
            return _ABSENT
        validated = validated[key]
    return validated
