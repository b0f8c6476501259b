import pytest
from django.db import InterfaceError, OperationalError
from rest_framework.exceptions import APIException, NotFound, ValidationError
from rest_framework.response import Response

from django_jobs import exceptions
from django_jobs.api.errors import ANSWERS, JobsAPIError, add_code, as_api_error
from django_jobs.handlers import AUTHENTICATED
from django_jobs.services.downloads import AssetFileMissing, AssetStorageDown
from tests.api.callers import Caller

ERRORS = {
    exceptions.UnknownJobType: exceptions.UnknownJobType(),
    exceptions.InvalidParameters: exceptions.InvalidParameters({"a": ["x"]}),
    exceptions.InvalidStateTransitionError: exceptions.InvalidStateTransitionError("a", "b"),
}


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (exceptions.UnknownJobType, 400, "unknown_job_type"),
        (exceptions.InvalidParameters, 400, "invalid_parameters"),
        (exceptions.JobNotFound, 404, "not_found"),
        (exceptions.JobAccessDenied, 404, "not_found"),
        (AssetFileMissing, 404, "asset_file_missing"),
        (exceptions.InvalidStateTransitionError, 409, "invalid_state_transition"),
        (exceptions.JobNotDeletable, 409, "job_not_deletable"),
        (exceptions.JobNotRetryable, 409, "job_not_retryable"),
        (exceptions.StaleJob, 409, "stale_job"),
        (exceptions.IdempotencyConflict, 422, "idempotency_conflict"),
        (exceptions.TooManyActiveJobs, 429, "too_many_active_jobs"),
        (AssetStorageDown, 503, "asset_storage_down"),
    ],
)
def test_each_error_has_a_status_and_a_code_that_stay(error, status, code):
    made = as_api_error(ERRORS.get(error) or error())

    assert isinstance(made, APIException)
    assert (made.status_code, ANSWERS[error].status, ANSWERS[error].code) == (status, status, code)


def test_the_table_above_is_whole():
    assert len(ANSWERS) == 12


def test_what_is_not_ours_is_left_to_drf():
    error = ZeroDivisionError()

    assert as_api_error(error) is error


@pytest.mark.parametrize("error", [OperationalError("host db7 is gone"), InterfaceError("closed")])
def test_a_database_that_is_away_is_said_to_be_and_logged(error, caplog):
    made = as_api_error(error)

    assert (made.status_code, made.detail.code, made.wait) == (503, "database_unavailable", 5)
    assert "db7" not in made.detail
    assert str(error) in caplog.text


@pytest.mark.django_db
def test_a_request_that_meets_no_database_may_be_repeated(user, handler, monkeypatch):
    def away(*_, **__):
        raise OperationalError("the server is gone")

    monkeypatch.setattr("django_jobs.api.orders.create_job", away)

    response = Caller(user).order(handler(lambda job: None, permission=AUTHENTICATED))

    assert response.status_code == 503
    assert response.headers["Retry-After"] == "5"
    assert response.json()["code"] == "database_unavailable"


def test_a_subclass_is_answered_like_its_base():
    class Special(exceptions.JobNotRetryable):
        """Special."""

    made = as_api_error(Special("Not today."))

    assert isinstance(made, JobsAPIError)
    assert (made.status_code, str(made.detail), made.detail.code) == (
        409,
        "Not today.",
        "job_not_retryable",
    )


def test_an_error_about_a_field_is_told_under_the_field():
    made = as_api_error(exceptions.InvalidParameters({"size": [{"a": ["x"]}, {}]}))

    assert isinstance(made, ValidationError)
    assert made.detail == {"parameters": {"size": [{"a": ["x"]}, {}]}}


def test_somebody_elses_job_is_as_absent_as_an_absent_one():
    denied, absent = exceptions.JobAccessDenied(), exceptions.JobNotFound("There is no job 5.")

    assert as_api_error(denied).detail == as_api_error(absent).detail == NotFound().detail


@pytest.mark.parametrize("data", [None, [], {}, {"detail": "from elsewhere"}, {"a": ["x"]}])
def test_answers_that_are_no_errors_of_drf_stay_as_they_are(data):
    response = Response(data)

    add_code(response)

    assert response.data == data


@pytest.mark.django_db
def test_errors_of_drf_have_codes_too(me):
    assert Caller().get("job-list").json()["code"] == "not_authenticated"
    assert me.delete("job-list").json()["code"] == "method_not_allowed"
    assert me.order("x", headers={"Content-Type": "a/b"}).json()["code"] == "unsupported_media_type"
