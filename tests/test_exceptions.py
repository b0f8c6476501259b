import copy
import inspect
import pickle

import pytest
from django.core.exceptions import ObjectDoesNotExist, PermissionDenied
from django_fsm import TransitionNotAllowed

from django_jobs import exceptions
from django_jobs.exceptions import (
    AttemptInterrupted,
    IdempotencyConflict,
    InvalidParameters,
    InvalidResult,
    InvalidStateTransitionError,
    JobAccessDenied,
    JobFailed,
    JobNotFound,
    JobNotRetryable,
    JobsError,
    LeaseLost,
    StaleJob,
    TooManyActiveJobs,
    UnknownJobType,
)

ERRORS = [
    InvalidStateTransitionError("queued", "completed"),
    StaleJob("x"),
    LeaseLost("x"),
    JobNotFound("x"),
    JobAccessDenied("x"),
    UnknownJobType("x"),
    InvalidParameters({"a": ["x"]}),
    InvalidResult("x"),
    IdempotencyConflict("x"),
    TooManyActiveJobs("x"),
    JobNotRetryable("x"),
    JobFailed("x"),
]
INTERRUPTS = ["JobCancelled", "JobTimedOut", "AttemptLost", "WorkerStopping"]


def classes():
    return [found for _, found in inspect.getmembers(exceptions, inspect.isclass)]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_every_error_is_a_jobs_error(error):
    assert isinstance(error, JobsError)


@pytest.mark.parametrize(
    ("error", "base"),
    [
        (InvalidStateTransitionError, TransitionNotAllowed),
        (JobNotFound, ObjectDoesNotExist),
        (JobAccessDenied, PermissionDenied),
        (InvalidResult, ValueError),
    ],
)
def test_some_errors_are_also_known_by_another_name(error, base):
    assert issubclass(error, base)


@pytest.mark.parametrize("name", INTERRUPTS)
def test_what_stops_an_attempt_from_outside_is_not_caught_as_an_exception(name):
    error = getattr(exceptions, name)

    assert issubclass(error, AttemptInterrupted)
    assert not issubclass(error, Exception)


def test_an_illegal_step_has_the_spec_s_message():
    error = InvalidStateTransitionError("queued", "completed")

    assert str(error) == "Cannot transition from 'queued' to 'completed'"
    assert (error.current, error.target) == ("queued", "completed")


@pytest.mark.parametrize(
    "error",
    [StaleJob, LeaseLost, JobNotFound, JobAccessDenied, UnknownJobType, IdempotencyConflict,
     TooManyActiveJobs, JobNotRetryable, JobFailed],
)  # fmt: skip
def test_without_a_text_the_first_line_of_the_docstring_is_the_message(error):
    assert str(error()) == error.__doc__.splitlines()[0]


def test_every_error_has_a_sentence_for_the_user():
    ours = [found for found in classes() if found.__module__ == exceptions.__name__]

    assert [
        found.__name__ for found in ours if not found.__doc__.splitlines()[0].endswith(".")
    ] == []


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("copied", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_survives_a_trip_to_another_process(error, copied):
    other = copied(error)

    assert type(other) is type(error)
    assert str(other) == str(error)
    assert vars(other) == vars(error)


@pytest.mark.parametrize("retry", [True, False])
def test_job_failed_remembers_whether_to_retry_on_that_trip(retry):
    assert pickle.loads(pickle.dumps(JobFailed("x", retry=retry))).retry is retry


def test_job_failed_is_not_retried_by_default():
    assert JobFailed("x").retry is False


def test_invalid_parameters_keep_the_errors_by_field():
    error = InvalidParameters({"size": ["Too large."]})

    assert error.errors == {"size": ["Too large."]}
    assert "size" in str(error) and "Too large." in str(error)
