import math

import pytest
from django.db import connections

from django_jobs.checks.settings import TYPES, check_settings
from django_jobs.conf import JobsSettings
from tests.checks.conftest import ids

NAMES = [name for name in vars(JobsSettings) if name.isupper()]


def redact(text):
    return text


def test_sound_settings_are_left_in_peace():
    assert check_settings() == []


def test_without_any_settings_the_defaults_are_sound(settings):
    del settings.DJANGO_JOBS
    assert check_settings() == []


def test_all_defaults_written_out_are_sound(settings):
    settings.DJANGO_JOBS = {name: getattr(JobsSettings, name) for name in NAMES}
    assert check_settings() == []


def test_every_setting_has_a_type():
    assert set(TYPES) == set(NAMES)


@pytest.mark.parametrize("value", [None, [], "immediate"])
def test_it_is_a_dict(settings, value):
    settings.DJANGO_JOBS = value
    assert ids(check_settings()) == ["E001"]


@pytest.mark.parametrize(
    ("key", "meant"), [("TICKS", "TICK"), ("tick", "TICK"), ("QUEUE", "QUEUES")]
)
def test_an_unknown_key_that_is_close_to_a_known_one(jobs, key, meant):
    jobs(**{key: 1})
    [message] = check_settings()
    assert ids([message]) == ["E002"]
    assert repr(key) in message.msg
    assert message.hint == f"Did you mean {meant}?"


def test_an_unknown_key_that_is_close_to_none(jobs):
    jobs(COLOUR="red")
    [message] = check_settings()
    assert ids([message]) == ["E002"]
    assert all(name in message.hint for name in NAMES)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ENGINE", None),
        ("QUEUES", "default"),
        ("QUEUES", [1]),
        ("LEASE", "30"),
        ("LEASE", True),
        ("LEASE", None),
        ("TICK", math.nan),
        ("TICK", math.inf),
        ("NOTIFY", 1),
        ("NOTIFY", "yes"),
        ("DEFAULT_TIMEOUT", "none"),
        ("DEFAULT_MAX_ATTEMPTS", 1.5),
        ("MAX_RESULT_BYTES", False),
        ("RETENTION_DAYS", "30"),
        ("REDACTOR", redact),
        ("SYSTEM_USER", 1),
    ],
)
def test_a_value_of_the_wrong_type(jobs, name, value):
    jobs(**{name: value})
    [message] = check_settings()
    assert ids([message]) == ["E003"]
    assert name in message.msg
    assert message.hint.startswith("It must be ")


def test_a_wrong_type_is_said_in_words(jobs):
    jobs(DEFAULT_TIMEOUT="x", QUEUES=3)
    assert {message.hint for message in check_settings()} == {
        "It must be a number or None.",
        "It must be a list, each a text.",
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("QUEUES", ("a", "b")),
        ("LEASE", 60.5),
        ("DEFAULT_TIMEOUT", None),
        ("RETENTION_DAYS", 0.5),
        ("SYSTEM_USER", "robot"),
        ("GRACE", 0),
        ("DEFAULT_RETRY_DELAY", 0),
        ("MAX_USER_PRIORITY", -5),
    ],
)
def test_a_value_of_the_right_type(jobs, name, value):
    jobs(**{name: value})
    assert check_settings() == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("POLL", 0),
        ("DRAIN", -1),
        ("GRACE", -1),
        ("DEFAULT_MAX_ATTEMPTS", 0),
        ("DEFAULT_TIMEOUT", 0),
    ],
)
def test_a_number_that_is_too_small(jobs, name, value):
    jobs(**{name: value})
    assert ids(check_settings()) == ["E007"]


def test_an_engine_that_is_not_one(jobs):
    jobs(ENGINE="celery")
    [message] = check_settings()
    assert ids([message]) == ["E004"]
    assert "immediate" in message.hint


@pytest.mark.parametrize(
    "path",
    ["no_such_module.redact", "tests.checks.test_settings.no_such", "redact", f"{__name__}.NAMES"],
)
def test_a_redactor_that_is_none(jobs, path):
    jobs(REDACTOR=path)
    [message] = check_settings()
    assert ids([message]) == ["E006"]
    assert path in message.msg


def test_a_redactor_that_is_one(jobs):
    jobs(REDACTOR=f"{__name__}.redact")
    assert check_settings() == []


@pytest.mark.parametrize(
    ("lease", "tick", "expected"),
    [
        (9.9, 5, ["E005"]),
        (10, 5, ["W001"]),
        (29.9, 5, ["W001"]),
        (30, 5, []),
        (6, 1, ["W002"]),  # a GRACE of 5
    ],
)
def test_the_lease_is_long_for_the_tick(jobs, lease, tick, expected):
    jobs(LEASE=lease, TICK=tick)
    assert ids(check_settings()) == expected


def test_the_longer_lease_on_sqlite_counts(jobs):
    jobs(TICK=8)
    is_sqlite = connections["default"].vendor == "sqlite"
    assert ids(check_settings()) == ([] if is_sqlite else ["W001"])


@pytest.mark.parametrize(("grace", "expected"), [(10, []), (10.1, ["W002"])])
def test_the_grace_is_short_for_the_tick(jobs, grace, expected):
    jobs(GRACE=grace)
    assert ids(check_settings()) == expected
