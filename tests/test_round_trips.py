"""Any JSON goes from who orders a job to its handler and back, exactly; or it is refused."""

import contextlib
import json
import math
import sys

import pytest
from django.db import connection
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from django_jobs.exceptions import InvalidParameters
from django_jobs.execution.immediate import run_job
from django_jobs.models import Job, JobTransition
from django_jobs.services import create_job
from tests.api.callers import Caller

pytestmark = pytest.mark.django_db

DEPTH = 31

numbers = st.integers() | st.integers(-(2**200), 2**200) | st.floats()
texts = st.text(st.characters(exclude_categories=[])) | st.text()
keys = texts | st.integers() | st.none()
scalars = st.none() | st.booleans() | numbers | texts
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(texts, inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=2)
    ),
    max_leaves=12,
)


def nested(levels):
    value = []
    for _ in range(levels - 1):
        value = [value]
    return value


def is_unstorable(character):
    return character == "\x00" or "\ud800" <= character <= "\udfff"


def is_storable(value, levels=DEPTH - 1):
    """The rule, told once more: what of JSON every database can store."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, str):
        return not any(map(is_unstorable, value))
    if isinstance(value, int):
        return value.bit_length() <= sys.get_int_max_str_digits() * 3.32
    if isinstance(value, (list, tuple)):
        return levels > 0 and all(is_storable(item, levels - 1) for item in value)
    if isinstance(value, dict):
        return levels > 0 and all(
            isinstance(key, str) and is_storable(key) and is_storable(item, levels - 1)
            for key, item in value.items()
        )
    return value is None


def same(found, given_value):
    """Whether ``found`` is what was given. All differences that there may be are named here."""
    if isinstance(given_value, float):
        if abs(given_value) >= 1e16:  # is stored as the integer that it is
            return type(found) is int and found == given_value
        if connection.vendor != "postgresql":  # whose numbers have no negative zero
            return repr(found) == repr(given_value)
        return type(found) is float and found == given_value
    if isinstance(given_value, (list, tuple)):  # JSON has no tuples
        return (
            type(found) is list
            and len(found) == len(given_value)
            and all(map(same, found, given_value))
        )
    if isinstance(given_value, dict):  # PostgreSQL does not keep the order of keys
        return (
            type(found) is dict
            and found.keys() == given_value.keys()
            and all(same(found[key], value) for key, value in given_value.items())
        )
    return type(found) is type(given_value) and found == given_value


@pytest.fixture
def echo(handler):
    """A type of job that gives back the parameter "value", and what its handlers were given."""
    given_values = []

    def work(job):
        given_values.append(job.parameters["value"])
        return job.parameters["value"]

    name = handler(work)
    return name, given_values


@pytest.fixture
def saying(handler):
    """A type of job that raises a text, and that text; in an item if told to."""
    said = []

    def work(job):
        text, is_item = said
        with job.item("item") if is_item else contextlib.nullcontext():
            raise ValueError(text)

    return handler(work), said


def send(user, echo, value):
    """Send ``value`` through a job; return what the handler was given, and the job as it ended."""
    name, given_values = echo
    job = create_job(user, name, {"value": value})
    run_job(job.pk, "default")
    return given_values[-1], Job.objects.get(pk=job.pk)


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(value=values)
@example(value=1e16)
@example(value=-1e22)
@example(value=1e23)
@example(value=sys.float_info.max)
@example(value=sys.float_info.min)
@example(value=5e-324)
@example(value=9999999999999998.0)
@example(value=-0.0)
@example(value=1.0)
@example(value=2**53 + 1)
@example(value=2**63)
@example(value=-(2**70))
@example(value=10**4200)
@example(value=10**5000)
@example(value=True)
@example(value=nested(DEPTH - 1))
@example(value=nested(DEPTH))
@example(value={"": {"a.b": [], "b": {}, "aa": ()}})
@example(value="\uffff\U0010ffff\x01\x7f\u2028\\\"'%{}")
@example(value={"\x00": 1})
@example(value={1: 1})
@example(value=[math.nan])
def test_json_comes_back_exactly_or_is_refused_before_it_is_written(user, echo, value):
    before = Job.objects.count(), JobTransition.objects.count()

    if not is_storable(value):
        with pytest.raises(InvalidParameters):
            send(user, echo, value)
        assert (Job.objects.count(), JobTransition.objects.count()) == before
        return

    found, job = send(user, echo, value)
    assert (job.status, job.error_message) == ("completed", "")
    assert same(found, value)
    assert same(job.parameters["value"], value)
    assert same(job.result, value)
    shown = json.loads(Caller(user).get("job-detail", job.pk).content)
    assert same(shown["parameters"]["value"], value)
    assert same(shown["result"], value)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(text=texts, is_item=st.booleans())
@example(text="", is_item=False)
@example(text=" \n\t", is_item=True)
@example(text="\x00", is_item=False)
@example(text="\ud800\udfff", is_item=True)
@example(text="x" * 100_000, is_item=False)
@example(text="postgres://me:hunter2@host password=hunter2", is_item=True)
@example(text="%s %(a)s {} {0}", is_item=True)
def test_any_text_of_an_exception_ends_in_a_readable_failure(user, saying, text, is_item):
    name, said = saying
    said[:] = [text, is_item]
    job = create_job(user, name)
    run_job(job.pk, "default")

    job = Job.objects.get(pk=job.pk)
    code = "all_items_failed" if is_item else "handler_error"
    assert (job.status, job.failure_code, job.result) == ("failed", code, None)
    assert "ValueError" in job.error_message
    assert len(job.error_message) <= 4000
    assert not any(is_unstorable(character) for character in job.error_message)
    assert "hunter2" not in job.error_message + job.transitions.order_by("id").last().detail
    shown = json.loads(Caller(user).get("job-detail", job.pk).content)
    assert shown["error"] == {"code": code, "message": job.error_message, "attempt": 1}
    assert [item["name"] for item in shown["failed_items"]] == (["item"] if is_item else [])


@pytest.mark.parametrize("value", [2**53 + 1, 2**63, 2**64 - 1, 2**70, -(2**70), 10**4000])
def test_integers_are_exact_however_large(user, echo, value):
    found, job = send(user, echo, value)

    assert found == job.result == value
    assert type(found) is type(job.result) is int


def test_the_rule_of_this_test_can_tell_values_apart():
    assert not same(1, 1.0) and not same(1.0, 1) and not same(True, 1) and not same("1", 1)
    assert not same([1], [1, 2]) and not same({"a": 1}, {"a": 2}) and not same({}, [])
    assert not same(10**23, 1e23) and same(int(1e23), 1e23)
