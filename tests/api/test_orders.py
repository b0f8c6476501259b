import datetime as dt

import pytest
from django.conf import settings
from django.utils import timezone
from rest_framework import serializers

from django_jobs.handlers import AUTHENTICATED, register_job_type
from django_jobs.models import Job
from tests.api.callers import url

pytestmark = pytest.mark.django_db


class Size(serializers.Serializer):
    width = serializers.IntegerField(min_value=1)
    on = serializers.DateField(required=False)


@pytest.fixture
def sized_type():
    return register_job_type("sized", parameters=Size, permission=AUTHENTICATED).name


@pytest.fixture
def refused(me):
    """Send an order that must be a bad request, without a trace; return what is said of it."""

    def send(job_type=..., headers=None, **body):
        before = Job.objects.count()
        if job_type is not ...:
            body["job_type"] = job_type
        response = me.post("job-list", body=body, headers=headers)
        assert response.status_code == 400, response.content
        assert Job.objects.count() == before
        return response.json()

    return send


def test_parameters_are_checked_by_the_type(me, sized_type):
    me.order(sized_type, parameters={"width": "3", "on": "2030-01-02"})

    assert Job.objects.get().parameters == {"width": 3, "on": "2030-01-02"}


@pytest.mark.parametrize(
    ("parameters", "errors"),
    [
        ({"width": 0}, {"width": ["Ensure this value is greater than or equal to 1."]}),
        ({}, {"width": ["This field is required."]}),
        (None, {"width": ["This field is required."]}),
    ],
)
def test_errors_of_parameters_are_under_parameters(refused, sized_type, parameters, errors):
    assert refused(sized_type, parameters=parameters) == {"parameters": errors}


@pytest.mark.parametrize("body", [{}, {"parameters": None}, {"parameters": {}}], ids=str)
def test_parameters_may_be_left_out(me, open_type, body):
    assert me.order(open_type, **body).status_code == 202
    assert Job.objects.get().parameters == {}


@pytest.mark.parametrize("parameters", ["abc", [1], [], 5, True, 1.5, "", '{"a": 1}'], ids=repr)
def test_parameters_must_be_an_object(refused, open_type, parameters):
    errors = refused(open_type, parameters=parameters)

    (message,) = errors["parameters"]["non_field_errors"]
    assert message.startswith("An object with named values is needed")


@pytest.mark.parametrize(
    "parameters",
    [{"a": "\x00"}, {"\x00": 1}, {"a": {"b": ["x\x00"]}}, {"a": "\ud800"}, {"\ud800": 1}],
    ids=ascii,
)
def test_parameters_that_no_database_stores_are_refused(refused, open_type, parameters):
    assert "cannot be stored" in str(refused(open_type, parameters=parameters)["parameters"])


@pytest.mark.parametrize("number", [2**53 + 1, 2**63, 2**70, -(2**70), 0.1, 1e300])
def test_numbers_come_back_exactly(me, open_type, number):
    body = me.order(open_type, parameters={"n": number}).json()

    assert body["parameters"] == {"n": number}


def test_a_type_is_needed(refused):
    assert refused() == {"job_type": ["This field is required."]}


@pytest.mark.parametrize("name", ["no-such", "x" * 5000, 5, "' OR 1=1"], ids=lambda x: str(x)[:9])
def test_an_unknown_type_is_refused(refused, name):
    (message,) = refused(name)["job_type"]
    assert message.startswith("There is no type of job called ")
    assert len(message) < 150


@pytest.mark.parametrize("name", ["", " ", None, [], {}, True, "x\x00", "\ud800"], ids=ascii)
def test_what_is_no_name_of_a_type_is_refused(refused, name):
    assert list(refused(name)) == ["job_type"]


def test_a_type_that_is_known_but_not_allowed_is_forbidden(me):
    name = register_job_type("for admins").name

    response = me.order(name, parameters=[], queue=[], priority="x")

    assert response.status_code == 403
    assert response.json() == {
        "detail": "You do not have permission to perform this action.",
        "code": "permission_denied",
    }


def test_a_type_may_be_allowed_by_a_function_of_the_user(me, stranger, user):
    name = register_job_type("mine", permission=lambda someone: someone.pk == user.pk).name

    assert [me.order(name).status_code, stranger.order(name).status_code] == [202, 403]


def test_the_queue_is_that_of_the_type(me, refused):
    name = register_job_type("slow", queue="slow", permission=AUTHENTICATED).name

    assert me.order(name).json()["queue"] == "slow"
    assert me.order(name, queue="slow").json()["queue"] == "slow"
    for other in ("default", "x" * 100, "x\x00", 5, None, ""):
        assert list(refused(name, queue=other)) == ["queue"]


@pytest.mark.parametrize("highest", [0, 10, -5])
def test_a_priority_is_at_most_what_users_may_ask_for(me, refused, open_type, settings, highest):
    settings.DJANGO_JOBS = {**settings.DJANGO_JOBS, "MAX_USER_PRIORITY": highest}

    assert me.order(open_type, priority=highest).json()["priority"] == highest
    assert me.order(open_type, priority=-100).json()["priority"] == -100
    assert me.order(open_type).json()["priority"] == min(0, highest)
    for wrong in (highest + 1, -101, 10**30, "x", None, True, 0.5, []):
        assert list(refused(open_type, priority=wrong)) == ["priority"]


def test_what_an_order_takes_is_told_in_advance(me, settings):
    settings.DJANGO_JOBS = {**settings.DJANGO_JOBS, "MAX_USER_PRIORITY": 10}

    fields = me.client.options(url("job-list")).json()["actions"]["POST"]

    assert list(fields) == ["job_type", "parameters", "queue", "run_at", "priority"]
    assert [name for name, field in fields.items() if field["required"]] == ["job_type"]
    assert (fields["priority"]["min_value"], fields["priority"]["max_value"]) == (-100, 10)


def test_a_job_may_be_ordered_for_later(me, open_type):
    body = me.order(open_type, run_at="2040-01-02T03:04:05+02:00").json()

    moment = dt.datetime(2040, 1, 2, 1, 4, 5, tzinfo=dt.UTC)
    job = Job.objects.get()
    assert dt.datetime.fromisoformat(body["run_at"]) == moment
    assert job.run_at == (moment if settings.USE_TZ else timezone.make_naive(moment))
    assert me.get("job-detail", job.pk).json() == body


def test_a_time_without_an_offset_is_that_of_the_server(me, open_type):
    body = me.order(open_type, run_at="2040-01-02T03:04:05").json()

    local = timezone.make_aware(dt.datetime(2040, 1, 2, 3, 4, 5))
    assert dt.datetime.fromisoformat(body["run_at"]) == local


@pytest.mark.parametrize(
    "moment",
    [
        "soon",
        "",
        5,
        [],
        {},
        True,
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "9999-12-31T23:59:59",
        "2300-01-01T00:00:00Z",
        "2040-13-01T00:00:00Z",
        "2040-01-01T00:00:00+99:99",
        "\x00",
    ],
    ids=ascii,
)
def test_a_moment_that_cannot_be_is_refused(refused, open_type, moment):
    assert list(refused(open_type, run_at=moment)) == ["run_at"]


@pytest.mark.parametrize("key", ["", " ", "k" * 256])
def test_an_idempotency_key_has_1_to_255_characters(refused, open_type, key):
    assert list(refused(open_type, headers={"Idempotency-Key": key})) == ["idempotency_key"]


def test_an_order_may_be_a_form(me, open_type):
    response = me.post(
        "job-list",
        body={"job_type": open_type, "parameters": '{"a": [1]}', "queue": "", "run_at": ""},
        format="multipart",
    )

    assert response.status_code == 202
    assert Job.objects.get().parameters == {"a": [1]}


@pytest.mark.parametrize("text", ["", " "])
def test_an_empty_field_of_a_form_is_no_parameters(me, open_type, text):
    body = {"job_type": open_type, "parameters": text}

    assert me.post("job-list", body=body, format="multipart").status_code == 202
    assert Job.objects.get().parameters == {}


@pytest.mark.parametrize("text", ['"abc"', "[1]", "5", "{", "nonsense", "\x00", "[" * 100_000])
def test_parameters_of_a_form_must_be_the_json_of_an_object(me, open_type, text):
    body = {"job_type": open_type, "parameters": text}

    response = me.post("job-list", body=body, format="multipart")

    assert (response.status_code, list(response.json())) == (400, ["parameters"])
