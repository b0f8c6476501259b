"""What commands take from the command line, as Python has it."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser
from django.db import connections

NO_FIELD = "non_field_errors"
UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds", "w": "weeks"}


def add_database(parser: CommandParser) -> None:
    parser.add_argument(
        "--database",
        metavar="ALIAS",
        choices=tuple(connections),
        help="Database of the jobs; by default the one that jobs are written to.",
    )


def duration(text: str) -> dt.timedelta:
    """Return a duration like ``30d``, ``12h`` or ``90m``; a number alone is one of days."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([dhmsw]?)", text.strip(), re.ASCII)
    try:
        if match is not None:
            return dt.timedelta(**{UNITS[match[2] or "d"]: float(match[1])})
    except OverflowError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r:.40} is no duration like 30d, 12h or 90m")


def user_named(text: str) -> Any:
    """Return the user with this login, else with this primary key."""
    model = get_user_model()
    for find in (model._default_manager.get_by_natural_key, _user_with_key):
        try:
            return find(text)
        except (model.DoesNotExist, ValueError, ValidationError):  # such a text is no number, UUID
            continue
    raise CommandError(f"There is no user with the {model.USERNAME_FIELD} or the key {text!r}.")


def _user_with_key(text: str) -> Any:
    return get_user_model()._default_manager.get(pk=text)


def json_object(text: str) -> Any:
    """Return parameters given as JSON; whether they are an object is for the service to say."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise CommandError(f"--parameters is not JSON: {error}") from error


def readable_errors(errors: Any, place: str = "") -> Iterator[str]:
    """Yield ``field: message`` for each error in DRF's shape, nested ones by their path."""
    if isinstance(errors, Mapping):
        for name, inner in errors.items():
            here = place if name == NO_FIELD else f"{place}.{name}".lstrip(".")
            yield from readable_errors(inner, here)
    elif isinstance(errors, list) and any(isinstance(inner, Mapping) for inner in errors):
        for index, inner in enumerate(errors):
            yield from readable_errors(inner, f"{place}[{index}]")
    elif isinstance(errors, list):
        yield f"{place}: {' '.join(map(str, errors))}".removeprefix(": ")
    else:
        yield f"{place}: {errors}".removeprefix(": ")
