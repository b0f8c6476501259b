import datetime as dt
import enum
import itertools
import math
import sys
import uuid
from collections import OrderedDict, namedtuple
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType

import pytest
from django.core.exceptions import ValidationError
from django.utils.functional import lazy
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy

from django_jobs.values import (
    CUT_MARK,
    NotStorable,
    clean_error,
    clean_text,
    describe_exception,
    storable_text,
    text_of_exception,
    to_json,
    whole_percent,
)
from tests.naming import readable

MIB = 1024 * 1024


class Colour(enum.Enum):
    RED = "red"


class Size(enum.IntEnum):
    BIG = 3


class Broken(Exception):
    def __str__(self):
        raise SystemExit("no text")


Point = namedtuple("Point", "x y")
raising_text = lazy(lambda: 1 / 0, str)


def storable(value, max_bytes=MIB):
    return to_json(value, "result", max_bytes=max_bytes)


def nested(levels):
    value = []
    for _ in range(levels - 1):
        value = [value]
    return value


def upper(text):
    return text.upper()


def raise_an_error(text):
    raise RuntimeError(text)


def return_nothing(text):
    return None


# -- what is stored as it is, and what is converted --------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        0,
        -1,
        1.5,
        "",
        "naïve 漢字 😀",
        [],
        {},
        [None, [1, {"a": [True]}]],
        {"": 1, "a b": 2, "a.b": {"c": "\n\t\x01"}},
        2**53 + 1,
        2**63,
        -(2**70),
        5e-324,
        0.1 + 0.2,
    ],
    ids=readable,
)
def test_json_stays_as_it_is(value):
    stored = storable(value)

    assert stored == value
    assert type(stored) is type(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Point(1, 2), [1, 2]),
        ((1, (2,)), [1, [2]]),
        (OrderedDict(a=1), {"a": 1}),
        (MappingProxyType({"a": (1,)}), {"a": [1]}),
        (Colour.RED, "red"),
        (Size.BIG, 3),
        ({Colour.RED: Size.BIG}, {"red": 3}),
        (Decimal("1.10"), "1.10"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (dt.date(2026, 2, 3), "2026-02-03"),
        (dt.time(4, 5, 6), "04:05:06"),
        (dt.datetime(2026, 2, 3, 4, 5), "2026-02-03T04:05:00"),
        (dt.datetime(2026, 2, 3, 4, 5, tzinfo=dt.UTC), "2026-02-03T04:05:00Z"),
        (
            dt.datetime(2026, 2, 3, 4, 5, tzinfo=dt.timezone(dt.timedelta(hours=8))),
            "2026-02-03T04:05:00+08:00",
        ),
        (dt.timedelta(days=1, seconds=2), "P1DT00H00M02S"),
        (gettext_lazy("Yes"), "Yes"),
        (mark_safe("<b>"), "<b>"),
    ],
    ids=readable,
)
def test_other_values_are_converted(value, expected):
    stored = storable(value)

    assert stored == expected
    assert type(stored) is type(expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (dt.datetime(2026, 2, 3, 4, 5, 6, 789012), "2026-02-03T04:05:06.789012"),
        (dt.datetime(2026, 2, 3, 4, 5, 6, 789012, dt.UTC), "2026-02-03T04:05:06.789012Z"),
        (dt.time(4, 5, 6, 789012), "04:05:06.789012"),
        (dt.timedelta(microseconds=12), "P0DT00H00M00.000012S"),
    ],
    ids=readable,
)
def test_times_keep_their_microseconds(value, expected):
    assert storable(value) == expected


@pytest.mark.parametrize("value", [1e16, -1.5e16, 1e22, 1e23, sys.float_info.max])
def test_a_float_without_a_fraction_that_json_writes_with_an_exponent_is_stored_as_the_integer(
    value,
):
    stored = storable(value)

    assert stored == value  # exactly the same number: PostgreSQL would round it to 17 digits
    assert type(stored) is int


def test_a_float_below_that_stays_a_float():
    assert type(storable(9007199254740993.0)) is float


def test_a_subclass_of_a_text_or_number_becomes_the_plain_type():
    class Text(str):
        pass

    class Number(int):
        pass

    assert [type(item) for item in storable([Text("a"), Number(1)])] == [str, int]


def test_what_is_stored_is_not_the_callers_own_container():
    value = {"rows": [1]}
    stored = storable(value)
    value["rows"].append(2)

    assert stored == {"rows": [1]}


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.nan, "NaN is not valid JSON"),
        (math.inf, "infinity is not valid JSON"),
        (-math.inf, "infinity is not valid JSON"),
        (Decimal("NaN"), "NaN is not valid JSON"),
        (Decimal("sNaN"), "sNaN is not valid JSON"),
        (Decimal("-Infinity"), "-Infinity is not valid JSON"),
        ("a\x00b", "a NUL character cannot be stored"),
        ("\ud800", "a lone surrogate cannot be stored"),
        ({1, 2}, "a set cannot be stored as JSON"),
        (frozenset(), "a frozenset cannot be stored as JSON"),
        (b"bytes", "a bytes cannot be stored as JSON"),
        (bytearray(b"x"), "a bytearray cannot be stored as JSON"),
        (1j, "a complex cannot be stored as JSON"),
        (Path("/tmp"), "a PosixPath cannot be stored as JSON"),
        (object(), "a object cannot be stored as JSON"),
        (object, "a type cannot be stored as JSON"),
        (len, "a builtin_function_or_method cannot be stored as JSON"),
        (iter([]), "a list_iterator cannot be stored as JSON"),
        ((n for n in ()), "a generator cannot be stored as JSON"),
        (range(3), "a range cannot be stored as JSON"),
        (ValueError("x"), "a ValueError cannot be stored as JSON"),
        ({1: 2}, "the key 1 is not a text"),
        ({None: 2}, "the key None is not a text"),
        ({(1, 2): 2}, "the key (1, 2) is not a text"),
        (dt.time(1, 2, tzinfo=dt.UTC), "JSON can't represent timezone-aware times."),
        (10**5000, "an integer of more than 4300 digits cannot be stored"),
        (-(10**5000), "an integer of more than 4300 digits cannot be stored"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_other_values_are_refused(value, reason):
    with pytest.raises(NotStorable) as raised:
        storable(value)

    assert raised.value.reason == reason
    assert raised.value.place == "result"


@pytest.mark.parametrize(
    "value", [gettext_lazy("a\x00"), {"a\x00": 1}, {"\udfff": 1}], ids=readable
)
def test_unstorable_text_is_found_in_lazy_texts_and_keys(value):
    with pytest.raises(NotStorable):
        storable(value)


def test_a_lazy_text_that_raises_is_refused_like_any_other():
    with pytest.raises(NotStorable, match=r"result\.a: .*ZeroDivisionError"):
        storable({"a": raising_text()})


def test_two_keys_that_become_the_same_text_are_refused():
    with pytest.raises(NotStorable, match="the key 'red' is there twice"):
        storable({"red": 1, Colour.RED: 2})


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"rows": [1, 2, 3, {"price": math.nan}]}, "result.rows[3].price"),
        ([[0, math.inf]], "result[0][1]"),
        ({"a b": {1, 2}}, "result['a b']"),
        ({"": {"x.y": b""}}, "result['']['x.y']"),
        ({"1": b""}, "result['1']"),
        ({"_x9": b""}, "result._x9"),
        ({"größe": b""}, "result.größe"),
        ({"'": b""}, 'result["\'"]'),
        ({Colour.RED: b""}, "result.red"),
        ({"a": {2: 1}}, "result.a"),
        ({"k": {"\x00": 1}}, "result.k (a key)"),
    ],
    ids=readable,
)
def test_the_place_of_what_is_refused_is_named(value, place):
    with pytest.raises(NotStorable) as raised:
        storable(value)

    assert raised.value.place == place
    assert str(raised.value) == f"{place}: {raised.value.reason}"


def test_a_long_key_is_cut_in_the_place():
    with pytest.raises(NotStorable) as raised:
        storable({"k " * 5000: b""})

    assert len(raised.value.place) < 80


# -- limits ------------------------------------------------------------------------------------


def test_31_levels_are_stored():
    assert storable(nested(31)) == nested(31)


def test_32_levels_are_refused():
    with pytest.raises(NotStorable, match="nested deeper than 31 levels"):
        storable(nested(32))


def test_the_depth_is_a_setting(settings):
    settings.DJANGO_JOBS = {"MAX_JSON_DEPTH": 2}

    assert storable([[1]]) == [[1]]
    with pytest.raises(NotStorable, match="nested deeper than 2 levels"):
        storable([[[1]]])


def test_a_container_that_holds_itself_is_refused():
    value = []
    value.append(value)

    with pytest.raises(NotStorable, match="nested deeper"):
        storable(value)


@pytest.mark.parametrize("text", ["abcd", "öö", "😀"])
def test_the_size_is_counted_in_bytes_of_utf8(text):
    assert storable(text, max_bytes=6) == text
    with pytest.raises(NotStorable, match="6 bytes of JSON are more than the 5 allowed"):
        storable(text, max_bytes=5)


class Endless(list):
    def __iter__(self):
        return itertools.repeat(1)


def doubled(value, times):
    for _ in range(times):
        value = [value, value]
    return value


@pytest.mark.parametrize(
    "value",
    [doubled(1, 30), doubled("x" * 500, 20), doubled(10**400, 20), Endless()],
    ids=["containers", "texts", "integers", "endless"],
)
def test_what_would_take_for_ever_is_given_up(value):
    with pytest.raises(NotStorable) as raised:
        to_json(value, "result", max_bytes=1000)

    assert str(raised.value) == "result: more than the 1000 bytes of JSON allowed"


def test_nothing_and_an_empty_object_have_no_size():
    assert storable(None, max_bytes=0) is None
    assert storable({}, max_bytes=0) == {}


@pytest.mark.parametrize("digits", [20, 400, 4290])
def test_integers_of_many_digits_are_stored(digits):
    assert storable(10**digits - 1) == 10**digits - 1


def test_what_is_stored_always_has_few_enough_digits_to_be_read_back():
    largest = 2 ** int(4300 * 3.32) - 1

    assert len(str(storable(largest))) <= 4300


# -- short texts -------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["a", "a" * 50, "漢" * 50, " a "])
def test_a_text_within_its_limit_is_returned(text):
    assert storable_text("queue", text, 50) == text


@pytest.mark.parametrize("text", ["", "  ", "\n", "a" * 51, "a" * 5000, None, 1, b"a", ["a"]])
def test_a_text_that_is_blank_too_long_or_no_text_is_refused(text):
    with pytest.raises(ValueError, match="queue must be a text of 1 to 50 characters") as raised:
        storable_text("queue", text, 50)

    assert len(str(raised.value)) < 150


@pytest.mark.parametrize("text", ["a\x00", "\ud800"])
def test_a_text_that_no_database_takes_is_refused(text):
    with pytest.raises(ValueError, match=r"queue: a .* cannot be stored"):
        storable_text("queue", text, 50)


def test_a_text_may_be_blank_where_that_is_allowed():
    assert storable_text("url", "", 50, may_be_blank=True) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abc", "abc"),
        ("a\x00b", "a\ufffdb"),
        ("\ud800", "\ufffd"),
        (12, "12"),
        ("x" * 20, "x" * 20),
        ("x" * 21, "x" * 16 + CUT_MARK),
    ],
)
def test_a_text_is_cleaned_and_cut_with_a_mark(text, expected):
    cleaned = clean_text(text, 20)

    assert cleaned == expected
    assert len(cleaned) <= 20


def test_the_limit_of_a_text_is_by_default_that_of_errors(settings):
    settings.DJANGO_JOBS = {"MAX_ERROR_CHARS": 10}

    assert clean_text("x" * 11) == "x" * 6 + CUT_MARK


# -- texts of errors ---------------------------------------------------------------------------


def test_the_redactor_is_a_setting(settings):
    settings.DJANGO_JOBS = {"REDACTOR": f"{__name__}.upper"}

    assert clean_error("password=a") == "PASSWORD=A"


def test_folders_are_hidden_whatever_the_redactor_is(settings):
    settings.DJANGO_JOBS = {"REDACTOR": f"{__name__}.upper"}

    assert clean_error("no file /srv/data/x.csv, password=a") == "NO FILE …/X.CSV, PASSWORD=A"


@pytest.mark.parametrize("name", ["raise_an_error", "return_nothing", "not_there"])
def test_a_redactor_that_does_not_work_lets_nothing_through(settings, caplog, name):
    settings.DJANGO_JOBS = {"REDACTOR": f"{__name__}.{name}"}

    assert clean_error("password=a") == ""
    assert "REDACTOR" in caplog.text


def test_an_error_text_has_no_blanks_around_it():
    assert clean_error("  a\n") == "a"


def test_an_error_text_is_cut_after_it_was_redacted(settings):
    settings.DJANGO_JOBS = {"MAX_ERROR_CHARS": 30}

    assert "hunter2" not in clean_error("x" * 10 + " password=hunter2hunter2hunter2")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("bad"), "ValueError: bad"),
        (ValueError(), "ValueError"),
        (ValueError("  "), "ValueError"),
        (KeyError("x"), "KeyError: 'x'"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (Broken(), "Broken: (its text cannot be read)"),
        (ValidationError(gettext_lazy("No")), "ValidationError: No"),
        (ValidationError(["a", "b"]), "ValidationError: a; b"),
        (ValidationError("%(n)s left", params={"n": 2}), "ValidationError: 2 left"),
        (
            ValidationError({"name": ["too long", "odd"], "age": [gettext_lazy("No")]}),
            "ValidationError: name: too long odd; age: No",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_exception_is_described_by_class_and_text(error, expected):
    assert describe_exception(error) == expected


def test_an_exception_may_have_attributes_that_look_like_django_s():
    error = ValueError("mine")
    error.messages = "not a list"

    assert text_of_exception(error) == "mine"


# -- percentages -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, 0), (100, 100), (25, 25), (99.9, 99), (0.4, 0), (Decimal("12.5"), 12), (-0.0, 0)],
)
def test_a_percentage_is_a_whole_number(value, expected):
    assert whole_percent(value) == expected
    assert type(whole_percent(value)) is int


@pytest.mark.parametrize(
    "value",
    ["50", None, True, False, [50], b"50", 1j, object()],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_number_is_no_percentage(value):
    with pytest.raises(TypeError, match="progress must be a number from 0 to 100"):
        whole_percent(value)


@pytest.mark.parametrize(
    "value",
    [-1, 101, -0.1, 100.1, math.nan, math.inf, Decimal("NaN"), Decimal("sNaN"), 10**400],
    ids=lambda value: repr(value)[:20],
)
def test_a_number_outside_0_to_100_is_no_percentage(value):
    with pytest.raises(ValueError, match="progress must be a number from 0 to 100"):
        whole_percent(value)
