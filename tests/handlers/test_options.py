import math

import pytest
from django.core.exceptions import ImproperlyConfigured
from rest_framework import serializers

from django_jobs.handlers import AUTHENTICATED, job_handler, register_job_type, registry
from tests.naming import readable


class Size(serializers.Serializer):
    width = serializers.IntegerField()


class Upload(serializers.Serializer):
    picture = serializers.ImageField()


class Attachments(serializers.Serializer):
    title = serializers.CharField()
    files = serializers.ListField(child=serializers.FileField())


class Letter(serializers.Serializer):
    upload = Upload()
    uploads = Upload(many=True)
    by_name = serializers.DictField(child=serializers.FileField())
    attachments = Attachments(required=False)


class Path(serializers.Serializer):
    path = serializers.FilePathField(path="/tmp", required=False)


def declare(**options):
    job_handler("report", **options)(lambda job: None)
    return registry.get("report")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("queue", "slow"),
        ("queue", "q" * 50),
        ("timeout", None),
        ("timeout", 0.5),
        ("timeout", 86400 * 30),
        ("queue_timeout", None),
        ("queue_timeout", 1),
        ("retry_delay", 0),
        ("retry_delay", 0.5),
        ("max_attempts", 1),
        ("max_attempts", 32767),
        ("max_active_per_user", None),
        ("max_active_per_user", 1),
        ("permission", "shop.add_order"),
        ("permission", AUTHENTICATED),
        ("permission", bool),
        ("parameters", None),
        ("parameters", Size),
        ("parameters", Path),
    ],
    ids=readable,
)
def test_a_legal_option_is_taken(option, value):
    declared = declare(**{option: value})

    assert getattr(declared, option) == value


@pytest.mark.parametrize("option", ["timeout", "queue_timeout", "retry_delay"])
@pytest.mark.parametrize(
    "value",
    [-1, math.nan, math.inf, -math.inf, "60", True, [], b"6", 1e300, 10**12, 10**400],
    ids=lambda value: repr(value)[:20],
)
def test_seconds_are_a_positive_number_within_reason(option, value):
    with pytest.raises(ImproperlyConfigured, match=f"{option}=.* is not a number of seconds"):
        declare(**{option: value})


@pytest.mark.parametrize("option", ["timeout", "queue_timeout"])
def test_no_time_at_all_is_no_timeout(option):
    with pytest.raises(ImproperlyConfigured, match=f"{option}=0 is not a number of seconds"):
        declare(**{option: 0})


def test_a_retry_delay_has_to_be_said():
    with pytest.raises(ImproperlyConfigured, match="retry_delay=None is not a number of seconds"):
        declare(retry_delay=None)


@pytest.mark.parametrize("option", ["max_attempts", "max_active_per_user"])
@pytest.mark.parametrize("value", [0, -1, 32768, 1.0, "1", True, math.nan], ids=readable)
def test_counts_are_whole_numbers_from_1(option, value):
    with pytest.raises(ImproperlyConfigured, match=f"{option}=.* is not a whole number from 1"):
        declare(**{option: value})


def test_attempts_cannot_be_without_limit():
    with pytest.raises(ImproperlyConfigured, match="max_attempts=None is not a whole number"):
        declare(max_attempts=None)


@pytest.mark.parametrize("value", ["", "  ", None, 1, "q" * 51, " slow", "sl\now", "a\x00"])
def test_a_queue_has_a_name_like_a_type(value):
    with pytest.raises(ImproperlyConfigured, match="its queue"):
        declare(queue=value)


@pytest.mark.parametrize("value", [None, 1, True, ["shop.add_order"], ""], ids=readable)
def test_another_permission_is_refused(value):
    with pytest.raises(ImproperlyConfigured, match="permission is neither a codename"):
        declare(permission=value)


@pytest.mark.parametrize(
    "value", [Size(), dict, "Size", serializers.IntegerField, len, 1], ids=readable
)
def test_parameters_are_a_serializer_class(value):
    with pytest.raises(ImproperlyConfigured, match="parameters is not a serializer class"):
        declare(parameters=value)


@pytest.mark.parametrize(
    ("serializer", "places"),
    [
        (Upload, "picture"),
        (Attachments, r"files\[\]"),
        (
            Letter,
            r"upload\.picture, uploads\[\]\.picture, by_name\[\], attachments\.files\[\]",
        ),
    ],
)
def test_parameters_have_no_file_fields_however_deep(serializer, places):
    with pytest.raises(ImproperlyConfigured, match=rf"parameters has file fields: {places}\.$"):
        declare(parameters=serializer)


def test_a_wrong_option_is_reported_with_the_place_of_the_declaration():
    with pytest.raises(ImproperlyConfigured) as raised:
        register_job_type("report", timeout=-1)

    assert str(raised.value).startswith(f"The job type 'report' declared at {__file__}:")


@pytest.mark.parametrize("value", [None, 1, "yes"])
def test_what_is_true_or_false_is_nothing_else(value):
    with pytest.raises(ImproperlyConfigured, match=r"retry_failed_items=.* is neither True nor"):
        job_handler("report", retry_failed_items=value)(lambda job: None)


@pytest.mark.parametrize(
    "option", ["max_attempts", "retry_delay", "retry_failed_items", "nonsense"]
)
def test_an_external_type_has_no_options_of_attempts(option):
    with pytest.raises(TypeError):
        register_job_type("report", **{option: 1})
