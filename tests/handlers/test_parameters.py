import datetime as dt
import math
import uuid
from decimal import Decimal
from types import MappingProxyType

import pytest
from django.http import QueryDict
from django.utils import timezone
from rest_framework import serializers

from django_jobs.exceptions import InvalidParameters
from django_jobs.handlers import JobType
from django_jobs.handlers.parameters import revived_parameters, stored_parameters
from tests.naming import readable


class Person(serializers.Serializer):
    name = serializers.CharField(max_length=20)
    pin = serializers.CharField(write_only=True, required=False)


class Report(serializers.Serializer):
    day = serializers.DateField(required=False)
    at = serializers.DateTimeField(required=False)
    clock = serializers.TimeField(required=False)
    lasting = serializers.DurationField(required=False)
    price = serializers.DecimalField(max_digits=10, decimal_places=2, required=False)
    key = serializers.UUIDField(required=False)
    count = serializers.IntegerField(default=3, min_value=1)
    ratio = serializers.FloatField(required=False)
    kind = serializers.ChoiceField(choices=["pdf", "html"], required=False)
    secret = serializers.CharField(write_only=True, required=False)
    note = serializers.CharField(allow_null=True, required=False)
    who = Person(required=False, allow_null=True)
    others = Person(many=True, required=False)
    tags = serializers.ListField(child=serializers.CharField(), required=False)
    extra = serializers.DictField(child=serializers.IntegerField(), required=False)
    anything = serializers.JSONField(required=False)
    seen = serializers.CharField(read_only=True)
    made_by = serializers.HiddenField(default="the library")


class Elsewhere(serializers.Serializer):
    size = serializers.IntegerField(source="options.size")
    depth = serializers.IntegerField(source="options.depth", required=False)


class Range(serializers.Serializer):
    low = serializers.IntegerField()
    high = serializers.IntegerField()

    def validate(self, values):
        if values["low"] > values["high"]:
            raise serializers.ValidationError("low is above high")
        return values


FREE = JobType(name="free", handler=print, place="here")


def declared(serializer):
    return JobType(name="report", handler=print, place="here", parameters=serializer)


REPORT = declared(Report)


def trip(parameters, job_type=REPORT):
    return revived_parameters(job_type, stored_parameters(job_type, parameters))


# -- without a serializer ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "stored"),
    [
        (None, {}),
        ({}, {}),
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}),
        ({"day": dt.date(2026, 1, 2), "n": (1, 2)}, {"day": "2026-01-02", "n": [1, 2]}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (QueryDict("a=1&b=2"), {"a": "1", "b": "2"}),
    ],
    ids=readable,
)
def test_named_values_are_stored_as_json(parameters, stored):
    assert stored_parameters(FREE, parameters) == stored


@pytest.mark.parametrize("parameters", [[], "a", 1, True, [("a", 1)], {"a"}, b""], ids=readable)
@pytest.mark.parametrize("job_type", [FREE, REPORT], ids=["free", "report"])
def test_what_has_no_names_is_refused(parameters, job_type):
    with pytest.raises(InvalidParameters) as raised:
        stored_parameters(job_type, parameters)

    (text,) = raised.value.errors["non_field_errors"]
    assert text == f"An object with named values is needed, not a {type(parameters).__name__}."


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"a": math.nan}, "parameters.a: NaN is not valid JSON"),
        ({"a": ["x", "\x00"]}, "parameters.a[1]: a NUL character cannot be stored"),
        ({"a": {1, 2}}, "parameters.a: a set cannot be stored as JSON"),
        ({1: 2}, "parameters: the key 1 is not a text"),
        ({"a": object()}, "parameters.a: a object cannot be stored as JSON"),
    ],
    ids=readable,
)
@pytest.mark.parametrize("job_type", [FREE, REPORT], ids=["free", "report"])
def test_what_is_not_json_is_refused_and_its_place_named(parameters, text, job_type):
    with pytest.raises(InvalidParameters) as raised:
        stored_parameters(job_type, parameters)

    assert raised.value.errors == {"non_field_errors": [text]}


def test_their_size_is_a_setting(settings):
    settings.DJANGO_JOBS = {"MAX_PARAMETERS_BYTES": 20}

    assert stored_parameters(FREE, {"a": "x" * 11}) == {"a": "x" * 11}
    with pytest.raises(InvalidParameters, match="21 bytes of JSON are more than the 20 allowed"):
        stored_parameters(FREE, {"a": "x" * 12})


@pytest.mark.parametrize("stored", [[], "a", 1, True], ids=readable)
def test_a_row_whose_parameters_are_no_object_is_refused(stored):
    with pytest.raises(InvalidParameters):
        revived_parameters(FREE, stored)


def test_the_handler_gets_its_own_copy():
    stored = {"a": 1}
    revived_parameters(FREE, stored)["b"] = 2

    assert stored == {"a": 1}


# -- with a serializer -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "stored", "revived"),
    [
        ({"day": "2026-01-02"}, {"day": "2026-01-02"}, {"day": dt.date(2026, 1, 2)}),
        ({"day": dt.date(2026, 1, 2)}, {"day": "2026-01-02"}, {"day": dt.date(2026, 1, 2)}),
        (
            {"clock": dt.time(1, 2, 3, 4)},
            {"clock": "01:02:03.000004"},
            {"clock": dt.time(1, 2, 3, 4)},
        ),
        (
            {"lasting": dt.timedelta(days=1, microseconds=5)},
            {"lasting": "1 00:00:00.000005"},
            {"lasting": dt.timedelta(days=1, microseconds=5)},
        ),
        ({"price": "1.5"}, {"price": "1.50"}, {"price": Decimal("1.50")}),
        ({"price": Decimal("1.5")}, {"price": "1.50"}, {"price": Decimal("1.50")}),
        (
            {"key": uuid.UUID(int=7)},
            {"key": "00000000-0000-0000-0000-000000000007"},
            {"key": uuid.UUID(int=7)},
        ),
        ({"count": "7"}, {"count": 7}, {"count": 7}),
        ({"ratio": 0.1}, {"ratio": 0.1}, {"ratio": 0.1}),
        ({"kind": "pdf"}, {"kind": "pdf"}, {"kind": "pdf"}),
        ({"note": None}, {"note": None}, {"note": None}),
        ({"tags": ["a", "b"]}, {"tags": ["a", "b"]}, {"tags": ["a", "b"]}),
        ({"extra": {"a": "1"}}, {"extra": {"a": 1}}, {"extra": {"a": 1}}),
        (
            {"anything": [1, {"a": None}]},
            {"anything": [1, {"a": None}]},
            {"anything": [1, {"a": None}]},
        ),
        ({"who": None}, {"who": None}, {"who": None}),
        ({"who": {"name": "Ada"}}, {"who": {"name": "Ada"}}, {"who": {"name": "Ada"}}),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_values_are_stored_as_json_and_come_back_as_python_has_them(given, stored, revived):
    assert stored_parameters(REPORT, given) == {"count": 3, **stored}
    assert trip(given) == {"count": 3, "made_by": "the library", **revived}


def test_a_moment_comes_back_as_the_same_moment_to_the_microsecond():
    moment = timezone.now().replace(microsecond=123456)

    assert trip({"at": moment})["at"] == moment


def test_defaults_are_filled_in_when_the_job_is_ordered():
    assert stored_parameters(REPORT, {}) == {"count": 3}
    assert stored_parameters(REPORT, None) == {"count": 3}


def test_write_only_fields_reach_the_handler():
    assert trip({"secret": "s"})["secret"] == "s"


def test_write_only_fields_inside_of_others_reach_the_handler():
    revived = trip({"who": {"name": "Ada", "pin": "1"}, "others": [{"name": "Bob", "pin": "2"}]})

    assert revived["who"] == {"name": "Ada", "pin": "1"}
    assert revived["others"] == [{"name": "Bob", "pin": "2"}]


def test_read_only_and_hidden_fields_cannot_be_given():
    revived = trip({"seen": "x", "made_by": "me"})

    assert "seen" not in revived
    assert revived["made_by"] == "the library"


def test_names_without_a_field_are_left_out():
    assert stored_parameters(REPORT, {"unknown": 1}) == {"count": 3}


def test_fields_may_have_another_source():
    job_type = declared(Elsewhere)

    assert stored_parameters(job_type, {"size": 1}) == {"size": 1}
    assert trip({"size": 1, "depth": 2}, job_type) == {"options": {"size": 1, "depth": 2}}


def test_what_is_stored_is_plain_json():
    stored = stored_parameters(REPORT, {"who": {"name": "Ada"}, "extra": {"a": 1}})

    assert type(stored) is dict
    assert type(stored["who"]) is dict


@pytest.mark.parametrize(
    ("given", "errors"),
    [
        ({"count": "many"}, {"count": ["A valid integer is required."]}),
        ({"count": 0}, {"count": ["Ensure this value is greater than or equal to 1."]}),
        ({"kind": "doc"}, {"kind": ['"doc" is not a valid choice.']}),
        ({"who": {}}, {"who": {"name": ["This field is required."]}}),
        ({"tags": ["a", []]}, {"tags": {1: ["Not a valid string."]}}),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_invalid_parameters_are_refused_with_errors_by_field(given, errors):
    with pytest.raises(InvalidParameters) as raised:
        stored_parameters(REPORT, given)

    assert raised.value.errors == errors
    assert "ErrorDetail" not in str(raised.value)  # a user reads it


def test_a_rule_over_several_fields_is_refused_under_no_field():
    with pytest.raises(InvalidParameters) as raised:
        stored_parameters(declared(Range), {"low": 2, "high": 1})

    assert raised.value.errors == {"non_field_errors": ["low is above high"]}


def test_parameters_that_are_no_longer_valid_are_refused_in_the_worker():
    stored = stored_parameters(FREE, {"low": 1})

    with pytest.raises(InvalidParameters) as raised:
        revived_parameters(declared(Range), stored)

    assert raised.value.errors == {"high": ["This field is required."]}


@pytest.mark.parametrize(
    "field",
    [
        serializers.DateField(format="%d.%m.%Y"),
        serializers.DateField(format="%d/%m/%Y", input_formats=["%m/%d/%Y", "iso-8601"]),
        serializers.ListField(child=serializers.DateField(format="%d.%m.%Y")),
    ],
    ids=["unreadable", "read otherwise", "inside a list"],
)
def test_a_field_that_cannot_read_back_what_it_writes_is_refused_at_once(field):
    class Odd(serializers.Serializer):
        day = field
        name = serializers.CharField()

    day = ["2026-03-04"] if isinstance(field, serializers.ListField) else "2026-03-04"
    with pytest.raises(InvalidParameters) as caught:
        stored_parameters(declared(Odd), {"day": day, "name": "a"})

    assert caught.value.errors == {
        "day": ["The type of job cannot read back what it stores of this value."]
    }


def test_a_rule_over_several_fields_that_what_is_stored_breaks_is_refused_at_once():
    class Once(serializers.Serializer):
        key = serializers.CharField()

        def validate(self, values):
            if values["key"] == "used":
                raise serializers.ValidationError("used up")
            return {"key": "used"}

    with pytest.raises(InvalidParameters) as caught:
        stored_parameters(declared(Once), {"key": "new"})

    assert list(caught.value.errors) == ["non_field_errors"]


def test_a_field_may_store_less_than_it_was_given():
    class Rounded(serializers.Serializer):
        at = serializers.TimeField(format="%H:%M")

    assert trip({"at": "10:20:30"}, declared(Rounded)) == {"at": dt.time(10, 20)}


def test_each_job_has_a_serializer_of_its_own():
    assert trip({"count": 5})["count"] == 5
    assert trip({})["count"] == 3
