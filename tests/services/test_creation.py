import datetime as dt
import inspect
import math

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from rest_framework import serializers

from django_jobs.exceptions import (
    IdempotencyConflict,
    InvalidParameters,
    TooManyActiveJobs,
    UnknownJobType,
)
from django_jobs.handlers import register_job_type
from django_jobs.models import Job, JobTransition
from django_jobs.services import (
    create_job,
    create_jobs,
    creation,
    mark_completed,
    transition_status,
)
from tests.naming import readable

pytestmark = pytest.mark.django_db


class Size(serializers.Serializer):
    width = serializers.IntegerField(min_value=1)
    height = serializers.IntegerField(default=100)


@pytest.fixture
def sized_type():
    return register_job_type("sized", parameters=Size).name


def soon(**time):
    return timezone.now().replace(microsecond=0) + dt.timedelta(**time)


# -- one job -----------------------------------------------------------------------------------


def test_a_new_job_waits_in_the_queue(user, external_type):
    job = create_job(user, external_type, {"a": 1})

    job.refresh_from_db()
    assert (job.user, job.job_type, job.status, job.progress) == (user, external_type, "queued", 0)
    assert (job.parameters, job.result, job.error_message) == ({"a": 1}, None, "")
    assert (job.queue, job.priority, job.attempt, job.worker) == ("default", 0, 0, "")
    assert job.run_at is job.started_at is job.completed_at is job.idempotency_key is None
    assert job.created_at == job.updated_at == job.due_at


def test_its_log_begins_with_who_ordered_it(user, external_type):
    job = create_job(user, external_type)

    (entry,) = job.transitions.all()
    assert (entry.from_status, entry.to_status, entry.actor) == ("", "queued", user)


def test_it_is_written_in_two_statements_and_one_transaction(
    user, external_type, django_assert_num_queries
):
    create_job(user, external_type)  # warms up the clock

    with django_assert_num_queries(4) as captured:  # two of them are the savepoint's
        create_job(user, external_type)

    statements = [query["sql"] for query in captured.captured_queries if "INSERT" in query["sql"]]
    assert len(statements) == 2


def test_it_goes_with_a_transaction_that_is_rolled_back(user, external_type):
    with pytest.raises(ZeroDivisionError), transaction.atomic():  # noqa: PT012
        create_job(user, external_type)
        1 / 0  # noqa: B018

    assert Job.objects.count() == JobTransition.objects.count() == 0


def test_it_gets_the_options_of_its_type(user, handler):
    name = handler(lambda job: None, queue="slow", max_attempts=3, queue_timeout=60)

    job = create_job(user, name)

    assert (job.queue, job.max_attempts) == ("slow", 3)
    assert job.start_deadline_at == job.due_at + dt.timedelta(seconds=60)


def test_a_wait_without_limit_has_no_deadline(user, handler):
    job = create_job(user, handler(lambda job: None, queue_timeout=None))

    assert job.start_deadline_at is None


def test_a_lazy_user_will_do(user, external_type):
    job = create_job(SimpleLazyObject(lambda: user), external_type)

    assert job.user_id == user.pk


@pytest.mark.parametrize("nobody", [None, AnonymousUser(), 1, "me"], ids=readable)
def test_a_job_has_a_user(external_type, nobody, nothing_written):
    with nothing_written(), pytest.raises((ValueError, IntegrityError)):
        create_job(nobody, external_type)


def test_a_user_that_is_not_saved_cannot_have_jobs(user, external_type, nothing_written):
    unsaved = type(user)()
    unsaved.pk = None

    with nothing_written(), pytest.raises(ValueError, match="unsaved"):
        create_job(unsaved, external_type)


# -- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["not there", "", "x" * 5000, "external\x00", "EXTERNAL", None, 1, b"external", ["external"]],
    ids=lambda name: repr(name)[:20],
)
def test_an_unknown_type_is_refused(user, name, nothing_written):
    register_job_type("external")

    with nothing_written(), pytest.raises(UnknownJobType):
        create_job(user, name)


@pytest.mark.parametrize(
    ("parameters", "errors"),
    [
        ({}, {"width": ["This field is required."]}),
        ({"width": 0}, {"width": ["Ensure this value is greater than or equal to 1."]}),
        ({"width": "wide"}, {"width": ["A valid integer is required."]}),
        ({"width": None}, {"width": ["This field may not be null."]}),
        ({"width": 1, "height": []}, {"height": ["A valid integer is required."]}),
    ],
    ids=readable,
)
def test_parameters_that_fail_the_serializer_are_refused(
    user, sized_type, parameters, errors, nothing_written
):
    with nothing_written(), pytest.raises(InvalidParameters) as raised:
        create_job(user, sized_type, parameters)

    assert raised.value.errors == errors


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"a": math.nan}, "parameters.a: NaN is not valid JSON"),
        ({"a": [1, math.inf]}, "parameters.a[1]: infinity is not valid JSON"),
        ({"a": {"b": "x\x00"}}, "parameters.a.b: a NUL character cannot be stored"),
        ({"a": "\udc80"}, "parameters.a: a lone surrogate cannot be stored"),
        ({"a": {1}}, "parameters.a: a set cannot be stored as JSON"),
        ({"a": object()}, "parameters.a: a object cannot be stored as JSON"),
        ({"a": 10**5000}, "parameters.a: an integer of more than 4300 digits cannot be stored"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_parameters_that_are_not_json_are_refused(
    user, external_type, parameters, text, nothing_written
):
    with nothing_written(), pytest.raises(InvalidParameters) as raised:
        create_job(user, external_type, parameters)

    assert raised.value.errors == {"non_field_errors": [text]}


@pytest.mark.parametrize("parameters", [[], "a", 1, [{}], True], ids=readable)
def test_parameters_without_names_are_refused(user, external_type, parameters, nothing_written):
    with nothing_written(), pytest.raises(InvalidParameters, match="object with named values"):
        create_job(user, external_type, parameters)


def test_parameters_of_more_than_a_mebibyte_are_refused(user, external_type, nothing_written):
    create_job(user, external_type, {"a": "x" * (1024 * 1024 - 9)})

    with nothing_written(), pytest.raises(InvalidParameters, match="1048577 bytes"):
        create_job(user, external_type, {"a": "x" * (1024 * 1024 - 8)})


def test_parameters_as_deep_as_they_may_be_are_stored(user, external_type):
    value = []
    for _ in range(29):
        value = [value]

    job = create_job(user, external_type, {"a": value})

    job.refresh_from_db()
    assert job.parameters == {"a": value}


@pytest.mark.parametrize(
    "option",
    [
        {"queue": ""},
        {"queue": " "},
        {"queue": "q" * 51},
        {"queue": "q" * 5000},
        {"queue": "a\x00"},
        {"queue": 1},
        {"idempotency_key": ""},
        {"idempotency_key": " "},
        {"idempotency_key": "k" * 256},
        {"idempotency_key": "k" * 5000},
        {"idempotency_key": "k\x00"},
        {"idempotency_key": "\ud800"},
        {"idempotency_key": 1},
        {"priority": 101},
        {"priority": -101},
        {"priority": 1.0},
        {"priority": "1"},
        {"priority": True},
        {"priority": None},
        {"priority": math.nan},
        {"run_at": "2026-01-01"},
        {"run_at": dt.date(2026, 1, 1)},
        {"run_at": 5},
        {"run_at": dt.timedelta(1)},
    ],
    ids=lambda option: repr(option)[:40],
)
def test_another_argument_that_is_wrong_is_refused_and_named(
    user, external_type, option, nothing_written
):
    (name,) = option
    with nothing_written(), pytest.raises(ValueError, match=name) as raised:
        create_job(user, external_type, **option)

    assert len(str(raised.value)) < 200


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("queue", "q" * 50),
        ("queue", "漢" * 50),
        ("priority", -100),
        ("priority", 100),
        ("idempotency_key", "k" * 255),
        ("idempotency_key", "漢" * 255),
        ("idempotency_key", "😀" * 255),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_limit_itself_is_allowed(user, external_type, option, value):
    job = create_job(user, external_type, **{option: value})

    job.refresh_from_db()
    assert getattr(job, option) == value


# -- when it may start -------------------------------------------------------------------------


def test_a_job_may_have_to_wait_for_its_time(user, external_type):
    tomorrow = soon(days=1)

    job = create_job(user, external_type, run_at=tomorrow)

    job.refresh_from_db()
    assert job.run_at == job.due_at == tomorrow
    assert job.start_deadline_at == tomorrow + dt.timedelta(days=1)
    assert list(Job.objects.due()) == []
    assert list(Job.objects.due(tomorrow)) == [job]


def test_a_time_that_is_past_is_now(user, external_type):
    yesterday = soon(days=-1)

    job = create_job(user, external_type, run_at=yesterday)

    job.refresh_from_db()
    assert job.run_at == yesterday
    assert job.due_at == job.created_at


def test_a_time_without_a_zone_goes_with_use_tz_false_only(user, external_type, settings):
    naive = dt.datetime(2030, 1, 2, 3, 4)

    if settings.USE_TZ:
        with pytest.raises(ValueError, match="run_at must be an aware datetime"):
            create_job(user, external_type, run_at=naive)
    else:
        assert create_job(user, external_type, run_at=naive).run_at == naive


@pytest.mark.parametrize("hours", [-11, 0, 8])
def test_a_time_with_a_zone_is_the_same_moment_everywhere(user, external_type, settings, hours):
    zone = dt.timezone(dt.timedelta(hours=hours))
    moment = dt.datetime(2030, 1, 2, 3, 4, tzinfo=zone)

    job = create_job(user, external_type, run_at=moment)

    job.refresh_from_db()
    stored = job.run_at if settings.USE_TZ else timezone.make_aware(job.run_at)
    assert stored == moment


@pytest.mark.parametrize(
    "moment",
    [
        dt.datetime.max,
        dt.datetime.min,
        dt.datetime(9999, 12, 31, 23, 59),
        dt.datetime(1, 1, 1, 1),
        dt.datetime(2200, 1, 1),
    ],
    ids=str,
)
@pytest.mark.parametrize("hours", [None, -12, 0, 14])
def test_a_time_that_is_centuries_away_is_refused(
    user, external_type, settings, moment, hours, nothing_written
):
    if hours is None and settings.USE_TZ:
        moment = moment.replace(tzinfo=dt.UTC)
    elif hours is not None:
        moment = moment.replace(tzinfo=dt.timezone(dt.timedelta(hours=hours)))

    with nothing_written(), pytest.raises(ValueError, match="run_at"):
        create_job(user, external_type, run_at=moment)


# -- ordering the same thing twice -------------------------------------------------------------


def test_the_same_key_gives_the_same_job(user, external_type, nothing_written):
    first = create_job(user, external_type, {"a": 1}, idempotency_key="k")

    with nothing_written():
        second = create_job(user, external_type, {"a": 1}, idempotency_key="k")

    assert second.pk == first.pk
    assert second.idempotency_key == "k"


def test_the_same_key_gives_the_job_as_it_is_now(user, external_type):
    first = create_job(user, external_type, idempotency_key="k")
    transition_status(first.pk, "processing")
    mark_completed(first.pk)

    assert create_job(user, external_type, idempotency_key="k").status == "completed"


@pytest.mark.parametrize(
    "parameters",
    [
        {"at": dt.datetime(2026, 1, 2, 3, 4, 5, 678901)},
        {"a": (1, 2), "b": None},
        {"x": 1e22, "y": 1e23, "z": -0.0, "w": 5e-324, "v": 1.7976931348623157e308},
        {"n": 2**70, "m": 1.0, "k": 10},
        {"b": 1, "a": 2, "aa": 3, "": 4},
    ],
    ids=readable,
)
def test_parameters_are_compared_as_they_are_stored(user, external_type, parameters):
    first = create_job(user, external_type, parameters, idempotency_key="k")

    assert create_job(user, external_type, parameters, idempotency_key="k").pk == first.pk


def test_defaults_do_not_make_a_difference(user, sized_type):
    first = create_job(user, sized_type, {"width": "1"}, idempotency_key="k")
    second = create_job(user, sized_type, {"width": 1, "height": 100}, idempotency_key="k")

    assert second.pk == first.pk


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([{"a": 2}], {}),
        ([], {}),
        ([{"a": 1}], {"priority": 1}),
        ([{"a": 1}], {"queue": "other"}),
        ([{"a": 1}], {"run_at": dt.datetime(2030, 1, 1, tzinfo=dt.UTC)}),
    ],
    ids=readable,
)
def test_the_same_key_for_another_order_is_a_conflict(
    user, external_type, arguments, options, nothing_written
):
    create_job(user, external_type, {"a": 1}, idempotency_key="k")

    with nothing_written(), pytest.raises(IdempotencyConflict):
        create_job(user, external_type, *arguments, idempotency_key="k", **options)


def test_the_same_key_for_another_type_is_a_conflict(user, external_type, sized_type):
    create_job(user, external_type, {"width": 1, "height": 100}, idempotency_key="k")

    with pytest.raises(IdempotencyConflict):
        create_job(user, sized_type, {"width": 1}, idempotency_key="k")


def test_a_delayed_order_may_be_repeated(user, external_type):
    tomorrow = timezone.now() + dt.timedelta(days=1)
    first = create_job(user, external_type, run_at=tomorrow, idempotency_key="k")

    assert create_job(user, external_type, run_at=tomorrow, idempotency_key="k").pk == first.pk


def test_each_user_has_keys_of_their_own(user, other_user, external_type):
    first = create_job(user, external_type, {"a": 1}, idempotency_key="k")
    second = create_job(other_user, external_type, {"a": 2}, idempotency_key="k")

    assert first.pk != second.pk


@pytest.mark.parametrize(
    "key",
    [
        "K",
        "k ",
        " k",
        "ķ",
        "k\u0301",
        "\uff4b",
    ],
    ids=ascii,
)
def test_keys_are_compared_exactly(user, external_type, key):
    first = create_job(user, external_type, {"a": 1}, idempotency_key="k")
    second = create_job(user, external_type, {"a": 2}, idempotency_key=key)

    assert first.pk != second.pk


def test_without_a_key_each_order_is_a_job(user, external_type):
    jobs = [create_job(user, external_type), create_job(user, external_type)]

    assert len({job.pk for job in jobs}) == 2


def test_somebody_who_was_faster_with_the_key_is_found(user, external_type, monkeypatch):
    look = creation._same_key
    answers = [lambda *args: None, look]  # the first look comes too early
    first = create_job(user, external_type, {"a": 1}, idempotency_key="k")
    monkeypatch.setattr(creation, "_same_key", lambda *args: answers.pop(0)(*args))

    assert create_job(user, external_type, {"a": 1}, idempotency_key="k").pk == first.pk
    assert answers == []


def test_another_fault_is_not_taken_for_the_same_key(user, external_type, monkeypatch):
    def refuse(*args):
        raise IntegrityError("another fault")

    monkeypatch.setattr(creation, "enter", refuse)

    with pytest.raises(IntegrityError, match="another fault"):
        create_job(user, external_type, idempotency_key="k")


# -- how many at a time ------------------------------------------------------------------------


@pytest.fixture
def limited_type():
    return register_job_type("limited", max_active_per_user=2).name


def test_a_user_cannot_have_more_active_jobs_than_allowed(user, limited_type, nothing_written):
    create_job(user, limited_type)
    transition_status(create_job(user, limited_type).pk, "processing")

    with nothing_written(), pytest.raises(TooManyActiveJobs, match=r"2 active .* limited; 2 are"):
        create_job(user, limited_type)


def test_jobs_that_have_ended_do_not_count(user, limited_type):
    for _ in range(3):
        job = create_job(user, limited_type)
        transition_status(job.pk, "processing")
        mark_completed(job.pk)

    assert Job.objects.count() == 3


def test_jobs_of_others_and_of_other_types_do_not_count(
    user, other_user, limited_type, external_type
):
    for _ in range(2):
        create_job(user, limited_type)
        create_job(user, external_type)

    create_job(other_user, limited_type)
    create_job(user, external_type)


def test_the_same_key_does_not_count_twice(user, limited_type):
    first = create_job(user, limited_type, idempotency_key="k")
    create_job(user, limited_type)

    assert create_job(user, limited_type, idempotency_key="k").pk == first.pk


def test_several_jobs_are_counted_together(user, limited_type, nothing_written):
    with nothing_written(), pytest.raises(TooManyActiveJobs):
        create_jobs(user, limited_type, [{}, {}, {}])

    assert len(create_jobs(user, limited_type, [{}, {}])) == 2


# -- several jobs ------------------------------------------------------------------------------


def test_several_jobs_come_back_in_the_order_of_their_parameters(user, sized_type):
    jobs = create_jobs(user, sized_type, ({"width": width} for width in range(1, 6)))

    assert [job.parameters["width"] for job in jobs] == [1, 2, 3, 4, 5]
    assert [job.pk for job in jobs] == sorted(job.pk for job in jobs)
    stored = Job.objects.order_by("pk")
    assert [job.parameters for job in stored] == [job.parameters for job in jobs]
    assert {job.status for job in stored} == {"queued"}


def test_each_of_several_jobs_has_a_log(user, external_type):
    for job in create_jobs(user, external_type, [{}, None, {"a": 1}]):
        (entry,) = job.transitions.all()
        assert (entry.from_status, entry.to_status, entry.actor_id) == ("", "queued", user.pk)


def test_each_of_several_jobs_has_the_options_of_the_type(user, handler):
    name = handler(lambda job: None, queue="slow", max_attempts=3, queue_timeout=60)

    for job in create_jobs(user, name, [{}, {}]):
        job.refresh_from_db()
        assert (job.queue, job.max_attempts) == ("slow", 3)
        assert job.start_deadline_at == job.due_at + dt.timedelta(seconds=60)


def test_several_jobs_are_all_refused_if_one_is_wrong(user, sized_type, nothing_written):
    with nothing_written(), pytest.raises(InvalidParameters) as raised:
        create_jobs(user, sized_type, [{"width": 1}, {"width": 0}, {"width": 2}, {}])

    assert raised.value.errors == {
        1: {"width": ["Ensure this value is greater than or equal to 1."]},
        3: {"width": ["This field is required."]},
    }


@pytest.mark.parametrize("parameter_list", [[], (), iter([])], ids=["list", "tuple", "iterator"])
def test_no_parameters_make_no_jobs(user, external_type, parameter_list, nothing_written):
    with nothing_written():
        assert create_jobs(user, external_type, parameter_list) == []


@pytest.mark.parametrize("parameter_list", [None, 1])
def test_several_jobs_need_a_list(user, external_type, parameter_list, nothing_written):
    with nothing_written(), pytest.raises(TypeError):
        create_jobs(user, external_type, parameter_list)


def test_several_jobs_of_an_unknown_type_are_refused(user, nothing_written):
    with nothing_written(), pytest.raises(UnknownJobType):
        create_jobs(user, "not there", [{}])


def test_many_jobs_take_few_statements(user, external_type):
    create_job(user, external_type)
    with CaptureQueriesContext(connection) as captured:
        create_jobs(user, external_type, [{}] * 1001)

    inserts = [query for query in captured.captured_queries if "INSERT" in query["sql"]]
    assert Job.objects.count() == JobTransition.objects.count() == 1002
    assert len(inserts) < 60  # SQLite takes a thousand values in a statement


# -- signatures --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        (
            create_job,
            "(user, job_type, parameters=None, *, run_at=None, priority=0, queue=None, "
            "idempotency_key=None)",
        ),
        (create_jobs, "(user, job_type, parameter_list)"),
    ],
)
def test_the_signatures_are_as_documented(service, expected):
    parameters = inspect.signature(service).parameters.values()
    bare = [parameter.replace(annotation=parameter.empty) for parameter in parameters]

    assert str(inspect.Signature(bare)) == expected
