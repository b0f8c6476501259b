"""The options of a job type, checked when it is declared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from django_jobs.handlers.job_type import JobType, _Authenticated, _Omitted

MAX_NAME = 50
MAX_SECONDS = 100 * 365 * 86400  # beyond that, times of the calendar run out


def check_options(job_type: JobType) -> None:
    """Raise ``ImproperlyConfigured``, naming the place, if an option of ``job_type`` is wrong."""
    for problem in _problems(job_type):
        raise ImproperlyConfigured(
            f"The job type {job_type.name!r:.80} declared at {job_type.place} is wrong: {problem}."
        )


def _problems(job_type: JobType) -> list[str]:
    return [
        problem
        for problem in (
            _name_problem("name", job_type.name),
            _name_problem("queue", job_type.queue),
            _seconds_problem("timeout", job_type.timeout_option, may_be_none=True),
            _seconds_problem("queue_timeout", job_type.queue_timeout_option, may_be_none=True),
            _seconds_problem("retry_delay", job_type.retry_delay_option, may_be_none=False),
            _count_problem("max_attempts", job_type.max_attempts_option),
            _count_problem("max_active_per_user", job_type.max_active_per_user),
            _flag_problem("retry_failed_items", job_type.retry_failed_items),
            _permission_problem(job_type.permission),
            _parameters_problem(job_type.parameters),
        )
        if problem
    ]


def _name_problem(option: str, name: Any) -> str:
    if not isinstance(name, str) or not name.strip():
        return f"its {option} is empty"
    if len(name) > MAX_NAME:
        return f"its {option} has more than {MAX_NAME} characters"
    if name != name.strip() or not name.isprintable():
        return f"its {option} has blanks at an end or characters that cannot be printed"
    return ""


def _seconds_problem(option: str, value: Any, *, may_be_none: bool) -> str:
    if isinstance(value, _Omitted) or (value is None and may_be_none):
        return ""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if is_number and (0 < value <= MAX_SECONDS or (value == 0 and not may_be_none)):
        return ""
    return f"{option}={value!r:.50} is not a number of seconds"


def _count_problem(option: str, value: Any) -> str:
    if isinstance(value, _Omitted) or (value is None and option == "max_active_per_user"):
        return ""
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 32767:
        return ""
    return f"{option}={value!r:.50} is not a whole number from 1 to 32767"


def _flag_problem(option: str, value: Any) -> str:
    return "" if isinstance(value, bool) else f"{option}={value!r:.50} is neither True nor False"


def _permission_problem(permission: Any) -> str:
    if isinstance(permission, _Authenticated) or callable(permission):
        return ""
    if isinstance(permission, str) and permission.strip():
        return ""
    return "permission is neither a codename, AUTHENTICATED nor a callable"


def _parameters_problem(parameters: Any) -> str:
    if parameters is None:
        return ""
    # rest_framework reads settings of the host when imported: only when a type needs it.
    from rest_framework.serializers import FileField, Serializer

    if not (isinstance(parameters, type) and issubclass(parameters, Serializer)):
        return "parameters is not a serializer class of Django REST framework"
    files = list(_fields_of_kind(parameters(), FileField, ""))
    return f"parameters has file fields: {', '.join(files)}" if files else ""


def _fields_of_kind(field: Any, kind: type, place: str) -> Iterator[str]:
    """Yield the paths of all fields of ``kind`` in a field, a list or a (nested) serializer."""
    if isinstance(field, kind):
        yield place
    if getattr(field, "child", None) is not None:
        yield from _fields_of_kind(field.child, kind, f"{place}[]")
    for name, inner in getattr(field, "fields", {}).items():
        yield from _fields_of_kind(inner, kind, f"{place}.{name}".lstrip("."))
