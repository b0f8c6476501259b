"""Checks of the dict ``DJANGO_JOBS``."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from django.conf import settings
from django.core import checks
from django.db import connections
from django.utils.module_loading import import_string

from django_jobs.conf import JobsSettings, conf
from django_jobs.models import clock

ENGINES = ("django_q", "immediate")
TYPES: dict[str, Any] = get_type_hints(JobsSettings)
MAY_BE_ZERO = {"GRACE", "SHUTDOWN_GRACE", "DEFAULT_RETRY_DELAY", "RETENTION_DAYS"}
MAY_BE_NEGATIVE = {"MAX_USER_PRIORITY"}
_IN_WORDS = {float: "a number", int: "a whole number", bool: "True or False", str: "a text"}


def check_settings(**_: Any) -> list[checks.CheckMessage]:
    given = given_settings()
    if not isinstance(given, dict):
        message = f"DJANGO_JOBS is not a dict but a {type(given).__name__}."
        hint = 'Write DJANGO_JOBS = {"ENGINE": "django_q"}, or leave it out.'
        return [checks.Error(message, hint=hint, id="django_jobs.E001")]
    wrong = [*_unknown(given), *_wrongly_typed(given)]
    return wrong or [*_out_of_range(given), *_engine(), *_redactor(), *_times()]


def given_settings() -> Any:
    return getattr(settings, "DJANGO_JOBS", {})


def runs_workers() -> bool:
    """Whether jobs are run by clusters, as far as the settings can be read."""
    given = given_settings()
    return isinstance(given, dict) and given.get("ENGINE", JobsSettings.ENGINE) == "django_q"


def _unknown(given: dict[Any, Any]) -> Iterator[checks.CheckMessage]:
    for name in given:
        if name not in TYPES:
            close = difflib.get_close_matches(str(name).upper(), TYPES, n=1)
            hint = f"Did you mean {close[0]}?" if close else f"There are: {', '.join(TYPES)}."
            yield checks.Error(
                f"DJANGO_JOBS has the unknown key {name!r}.", hint=hint, id="django_jobs.E002"
            )


def _wrongly_typed(given: dict[Any, Any]) -> Iterator[checks.CheckMessage]:
    for name, value in given.items():
        if name in TYPES and not _is_of(value, TYPES[name]):
            yield checks.Error(
                f"DJANGO_JOBS[{name!r}] is {value!r:.80}.",
                hint=f"It must be {_in_words(TYPES[name])}.",
                id="django_jobs.E003",
            )


def _is_of(value: Any, wanted: Any) -> bool:
    if get_origin(wanted) in (Union, UnionType):
        return any(_is_of(value, alternative) for alternative in get_args(wanted))
    if get_origin(wanted) is list:
        (inner,) = get_args(wanted)
        return isinstance(value, (list, tuple)) and all(_is_of(item, inner) for item in value)
    if wanted is float:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return is_number and math.isfinite(value)
    if wanted is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, wanted)


def _in_words(wanted: Any) -> str:
    if get_origin(wanted) in (Union, UnionType):
        return " or ".join(_in_words(alternative) for alternative in get_args(wanted))
    if get_origin(wanted) is list:
        return f"a list, each {_in_words(get_args(wanted)[0])}"
    return _IN_WORDS.get(wanted, "None")


def _out_of_range(given: dict[Any, Any]) -> Iterator[checks.CheckMessage]:
    for name, value in given.items():
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or name in MAY_BE_NEGATIVE:
            continue
        if value < 0 or (value == 0 and name not in MAY_BE_ZERO):
            least = "0 or more" if name in MAY_BE_ZERO else "more than 0"
            yield checks.Error(
                f"DJANGO_JOBS[{name!r}] is {value!r}.",
                hint=f"It must be {least}.",
                id="django_jobs.E007",
            )


def _engine() -> Iterator[checks.CheckMessage]:
    if conf.ENGINE not in ENGINES:
        yield checks.Error(
            f"DJANGO_JOBS['ENGINE'] is {conf.ENGINE!r:.80}.",
            hint=f"It must be one of {', '.join(ENGINES)}.",
            id="django_jobs.E004",
        )


def _redactor() -> Iterator[checks.CheckMessage]:
    try:
        is_callable = callable(import_string(conf.REDACTOR))
        reason = "is not callable"
    except Exception as error:  # noqa: BLE001 - importing a module of the host may raise anything
        is_callable, reason = False, f"cannot be imported: {error}"
    if not is_callable:
        yield checks.Error(
            f"DJANGO_JOBS['REDACTOR'], {conf.REDACTOR!r}, {reason}.",
            hint="It is the dotted path of a function that takes a text and returns one. While "
            "it fails, error messages are left out.",
            id="django_jobs.E006",
        )


def _times() -> Iterator[checks.CheckMessage]:
    lease = conf.lease(connections[clock.alias_for_write()].vendor)
    tick = conf.TICK
    if lease < 2 * tick:
        yield checks.Error(
            f"The LEASE of {lease:g} s is shorter than twice the TICK of {tick:g} s.",
            hint="A worker renews its lease once a tick: one late renewal would cost it its job. "
            "Let LEASE be six ticks or more.",
            id="django_jobs.E005",
        )
    elif lease < 6 * tick:
        yield checks.Warning(
            f"The LEASE of {lease:g} s is shorter than six times the TICK of {tick:g} s.",
            hint="A short outage of the database can cost running jobs their workers.",
            id="django_jobs.W001",
        )
    if 2 * tick < conf.GRACE:
        yield checks.Warning(
            f"The GRACE of {conf.GRACE:g} s is longer than two ticks of {tick:g} s.",
            hint="A worker that cannot renew its lease stops its handler two ticks before the "
            "lease ends, and ends by force at its end: it could not wait that long.",
            id="django_jobs.W002",
        )
