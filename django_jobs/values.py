"""What can be stored: one rule for parameters, results and texts, on every database.

JSON with text keys, plus what ``DjangoJSONEncoder`` converts (dates, times to the microsecond,
durations, ``Decimal``, ``UUID``, lazy text), plus tuples as lists and enum members as their values;
a float from 1e16 on is stored as the integer that it is. Refused, with the place named: NaN and
infinities, NUL characters and lone surrogates (PostgreSQL stores neither), integers beyond Python's
digit limit, anything nested too deep or too large, and every other type.
"""

from __future__ import annotations

import datetime as dt
import enum
import json
import logging
import math
import re
import sys
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.utils.functional import Promise
from django.utils.module_loading import import_string

from django_jobs.conf import conf
from django_jobs.redaction import hide_folders

CONVERTED = (dt.datetime, dt.date, dt.time, dt.timedelta, Decimal, uuid.UUID, Promise)
CUT_MARK = " […]"
EXACT_INTEGERS = 1e16  # floats from here on are whole numbers, written with an exponent
logger = logging.getLogger(__name__)
_UNSTORABLE_TEXT = re.compile("[\x00\ud800-\udfff]")
_PLAIN_KEY = re.compile(r"[^\W\d]\w*\Z")


class NotStorable(ValueError):
    """A value that cannot be stored; ``place`` is its path, like ``result.rows[3].price``."""

    def __init__(self, place: str, reason: str) -> None:
        self.place = place
        self.reason = reason
        super().__init__(f"{place}: {reason}")


class _TooLarge(Exception):
    """There is no use in going on."""


class _Room:
    """Ends what would take for ever: containers that hold one another many times, or have no end.

    More values than bytes are too many in any case; the size of what is not is measured later.
    """

    SLACK = 64  # times the bytes that are allowed, for texts and digits

    def __init__(self, max_bytes: int) -> None:
        self._values = max_bytes
        self._characters = max_bytes * self.SLACK

    def take(self, value: Any) -> None:
        self._values -= 1
        if isinstance(value, str):
            self._characters -= len(value)
        elif isinstance(value, int):
            self._characters -= value.bit_length() // 4
        if self._values < 0 or self._characters < 0:
            raise _TooLarge


def to_json(value: Any, place: str, *, max_bytes: int) -> Any:
    """Return ``value`` as plain JSON or raise ``NotStorable``.

    ``place`` names the value in errors; ``max_bytes`` bounds its JSON in UTF-8.
    """
    if value is None or (type(value) is dict and not value):
        return value
    try:
        plain = _plain(value, place, conf.MAX_JSON_DEPTH, _Room(max_bytes))
    except _TooLarge:
        raise NotStorable(place, f"more than the {max_bytes} bytes of JSON allowed") from None
    size = len(json.dumps(plain, ensure_ascii=False).encode())
    if size > max_bytes:
        raise NotStorable(place, f"{size} bytes of JSON are more than the {max_bytes} allowed")
    return plain


def _plain(value: Any, place: str, depth: int, room: _Room) -> Any:
    room.take(value)
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _checked_text(value, place)
    if isinstance(value, int):
        return _checked_integer(value, place)
    if isinstance(value, float):
        return _checked_float(value, place)
    if isinstance(value, (Mapping, list, tuple)):
        return _checked_container(value, place, depth, room)
    if isinstance(value, CONVERTED):
        return _checked_conversion(value, place)
    raise NotStorable(place, f"a {type(value).__name__} cannot be stored as JSON")


def _checked_text(value: str, place: str) -> str:
    found = _UNSTORABLE_TEXT.search(value)
    if found:
        kind = "a NUL character" if found.group() == "\x00" else "a lone surrogate"
        raise NotStorable(place, f"{kind} cannot be stored")
    return str.__str__(value)


def _checked_integer(value: int, place: str) -> int:
    limit = sys.get_int_max_str_digits()
    if limit and value.bit_length() > limit * 3.32:
        raise NotStorable(place, f"an integer of more than {limit} digits cannot be stored")
    return int(value)


def _checked_float(value: float, place: str) -> float | int:
    if not math.isfinite(value):
        name = "NaN" if math.isnan(value) else "infinity"
        raise NotStorable(place, f"{name} is not valid JSON")
    # PostgreSQL makes an integer of it, and not always the same number: 1e23 is not 10**23
    return int(value) if abs(value) >= EXACT_INTEGERS else float(value)


def _checked_conversion(value: Any, place: str) -> str:
    if isinstance(value, Decimal) and not value.is_finite():
        raise NotStorable(place, f"{value} is not valid JSON")
    try:
        converted = _converted(value)
    except ValueError as error:
        raise NotStorable(place, str(error)) from error
    except Exception as error:  # user code: a lazy text may raise anything
        raise NotStorable(place, describe_exception(error)) from error
    return _checked_text(converted, place)


def _converted(value: Any) -> str:
    if isinstance(value, dt.datetime):  # the encoder drops microseconds
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, dt.time) and value.tzinfo is None:
        return value.isoformat()
    converted: str = DjangoJSONEncoder().default(value)
    return converted


def _checked_container(
    value: Any, place: str, depth: int, room: _Room
) -> dict[str, Any] | list[Any]:
    if depth <= 0:
        raise NotStorable(place, f"nested deeper than {conf.MAX_JSON_DEPTH} levels")
    if not isinstance(value, Mapping):
        return [
            _plain(item, f"{place}[{index}]", depth - 1, room) for index, item in enumerate(value)
        ]
    plain: dict[str, Any] = {}
    for given, item in value.items():
        key = _checked_key(given, place)
        if key in plain:
            raise NotStorable(place, f"the key {key!r:.50} is there twice")
        plain[key] = _plain(item, _inside(place, key), depth - 1, room)
    return plain


def _checked_key(key: Any, place: str) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    if not isinstance(key, str):
        raise NotStorable(place, f"the key {key!r:.50} is not a text")
    return _checked_text(key, f"{place} (a key)")


def _inside(place: str, key: str) -> str:
    return f"{place}.{key}" if _PLAIN_KEY.match(key) else f"{place}[{ascii(key)[:60]}]"


def storable_text(name: str, text: Any, limit: int, *, may_be_blank: bool = False) -> str:
    """Return ``text`` if every database stores it in ``limit`` characters, else ``ValueError``."""
    if not isinstance(text, str) or len(text) > limit or not (text.strip() or may_be_blank):
        raise ValueError(f"{name} must be a text of 1 to {limit} characters, not {text!r:.60}")
    return _checked_text(text, name)


def clean_text(text: Any, limit: int | None = None) -> str:
    """Return ``text`` cut to ``limit`` characters, without NUL and lone surrogates."""
    limit = conf.MAX_ERROR_CHARS if limit is None else limit
    cleaned = _UNSTORABLE_TEXT.sub("\ufffd", str(text))
    return cleaned if len(cleaned) <= limit else cleaned[: limit - len(CUT_MARK)] + CUT_MARK


def clean_error(text: Any) -> str:
    """Return an error text fit to be stored and read: redacted, then cleaned.

    A redactor that fails lets nothing through.
    """
    return clean_text(hide_folders(redacted(text)).strip())


def redacted(text: Any) -> str:
    """Return ``text`` without secrets, as the setting ``REDACTOR`` sees it; "" if that fails."""
    try:
        return _checked_redaction(import_string(conf.REDACTOR)(str(text)))
    except Exception:  # user code may raise anything; the outcome of a job must be written
        logger.exception("the REDACTOR %r failed: an error text is left out", conf.REDACTOR)
        return ""


def _checked_redaction(text: Any) -> str:
    if not isinstance(text, str):
        raise TypeError(f"it returned {type(text).__name__} instead of a text")
    return text


def describe_exception(error: BaseException) -> str:
    """Return ``ClassName: text`` of any exception, even of one whose ``str()`` raises."""
    text = text_of_exception(error).strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def text_of_exception(error: BaseException) -> str:
    """Return the text of any exception, even of one whose ``str()`` raises."""
    try:
        return _readable(error)
    except BaseException:  # noqa: BLE001 - user code: __str__ may raise anything, SystemExit too
        return "(its text cannot be read)"


def _readable(error: BaseException) -> str:
    # Django's ValidationError; its str() is a repr
    if hasattr(error, "error_dict"):
        fields = getattr(error, "message_dict", {})
        return "; ".join(f"{name}: {' '.join(map(str, texts))}" for name, texts in fields.items())
    messages = getattr(error, "messages", None)
    if isinstance(messages, list):
        return "; ".join(str(message) for message in messages)
    return str(error)


def whole_percent(value: Any) -> int:
    """Return a progress as a whole number 0..100, or raise ``ValueError`` or ``TypeError``."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise TypeError(f"progress must be a number from 0 to 100, not {value!r:.50}")
    is_nan = isinstance(value, Decimal) and value.is_nan()  # which cannot be compared
    if is_nan or not 0 <= value <= 100:  # false for a float's NaN too
        raise ValueError(f"progress must be a number from 0 to 100, not {value!r:.50}")
    return int(value)
