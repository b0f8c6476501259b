import dataclasses

import pytest

from django_jobs.exceptions import (
    AttemptLost,
    InvalidParameters,
    JobCancelled,
    JobFailed,
    JobTimedOut,
    UnknownJobType,
    WorkerStopping,
)
from django_jobs.execution.items import Items
from django_jobs.execution.outcome import (
    MAX_TRACEBACK_CHARS,
    Outcome,
    Partial,
    outcome_of_exception,
    outcome_of_return,
)
from django_jobs.models import FailureCode, Job
from django_jobs.states import RETRYABLE_CODES
from django_jobs.testing import make_job
from tests.naming import readable


class Unprintable(Exception):
    """Neither its text nor its traceback can be written down."""

    def __str__(self):
        raise KeyboardInterrupt

    __repr__ = __str__


class Traceless(Exception):
    """The standard library cannot make a traceback of it."""

    @property
    def __notes__(self):
        raise SystemExit

    @property
    def __cause__(self):
        raise SystemExit


def items(succeeded, failed):
    counted = Items()
    for number in range(succeeded + failed):
        with counted.item(number):
            if number >= succeeded:
                raise ValueError("odd")
    return counted


def raised(error):
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001
        return outcome_of_exception(caught)


# -- Partial -----------------------------------------------------------------------------------


def test_a_part_has_a_result_and_a_text():
    assert Partial() == Partial(None, "")
    assert Partial(1, "x") == Partial(result=1, error_message="x")


def test_a_part_does_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Partial().result = 1


# -- what was returned -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("returned", "counted", "code", "is_partial", "result"),
    [
        ("r", (0, 0), None, False, "r"),
        ("r", (2, 0), None, False, "r"),
        ("r", (1, 1), "some_items_failed", True, "r"),
        ("r", (0, 1), "all_items_failed", False, None),
        (Partial("r"), (0, 0), "some_items_failed", True, "r"),
        (Partial("r"), (2, 0), "some_items_failed", True, "r"),
        (Partial("r"), (0, 2), "some_items_failed", True, "r"),
        (None, (0, 0), None, False, None),
    ],
)
def test_the_outcome_follows_from_what_was_returned_and_counted(
    returned, counted, code, is_partial, result
):
    outcome = outcome_of_return(returned, items(*counted))

    assert (outcome.code, outcome.is_partial, outcome.result) == (code, is_partial, result)
    assert outcome.is_repeatable is False


def test_a_part_is_told_in_the_handler_s_words_first():
    assert outcome_of_return(Partial(None, "mine"), items(1, 1)).message == "mine"
    assert outcome_of_return(Partial(), items(1, 1)).message.startswith("1 of 2 items failed.")
    assert outcome_of_return(Partial(), items(0, 0)).message == ""


# -- what was raised ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code", "is_repeatable"),
    [
        (ValueError("x"), "handler_error", True),
        (SystemExit(1), "handler_error", True),
        (UnknownJobType("x"), "handler_error", True),
        (JobFailed("x"), "handler_error", False),
        (JobFailed("x", retry=True), "handler_error", True),
        (InvalidParameters({"a": ["x"]}), "invalid_parameters", False),
        (JobCancelled(), "cancelled", False),
        (JobTimedOut(), "timed_out", True),
        (WorkerStopping(), "shutdown", True),
        (AttemptLost(), "worker_lost", True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_code_follows_from_what_was_raised(error, code, is_repeatable):
    outcome = raised(error)

    assert (outcome.code, outcome.is_repeatable) == (code, is_repeatable)
    assert outcome.result is None


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("x"), "ValueError: x"),
        (JobFailed("out of paper"), "out of paper"),
        (JobTimedOut("after 5 s"), "after 5 s"),
        (JobCancelled("enough"), "enough"),
        (WorkerStopping("secret"), ""),
        (AttemptLost("secret"), ""),
    ],
    ids=readable,
)
def test_the_text_follows_from_what_was_raised(error, message):
    assert raised(error).message == message


@pytest.mark.parametrize("code", FailureCode)
def test_what_is_repeated_is_in_one_list(code):
    assert (code in RETRYABLE_CODES) == (
        code in ("handler_error", "timed_out", "worker_lost", "shutdown")
    )


def test_a_traceback_goes_with_an_error():
    detail = raised(ValueError("x")).detail

    assert detail.startswith("Traceback (most recent call last):")
    assert detail.rstrip().endswith("ValueError: x")


def test_there_is_none_with_a_failure_on_purpose():
    assert raised(JobFailed("x")).detail == ""


def test_the_causes_are_in_the_traceback():
    error = ValueError("outer")
    error.__cause__ = KeyError("inner")

    assert "KeyError: 'inner'" in raised(error).detail


def test_a_long_traceback_keeps_its_end():
    detail = raised(ValueError("x" * 100_000 + "END")).detail

    assert len(detail) == MAX_TRACEBACK_CHARS + 1
    assert detail.startswith("…")
    assert detail.rstrip().endswith("END")


def test_a_traceback_is_redacted_and_keeps_its_paths():
    detail = raised(ValueError("postgres://me:hunter2@host from /srv/x/y")).detail

    assert "hunter2" not in detail and "postgres://***@host from /srv/x/y" in detail
    assert f'File "{__file__}"' in detail


def test_an_error_that_cannot_be_written_down_has_a_traceback_all_the_same():
    outcome = raised(Unprintable())

    assert outcome.message == "Unprintable: (its text cannot be read)"
    assert "in raised" in outcome.detail


def test_an_error_whose_traceback_cannot_be_made_has_the_lines_of_it():
    outcome = raised(Traceless("x"))

    assert outcome.message == "Traceless: x"
    assert "in raised" in outcome.detail


def test_what_cannot_be_stored_is_cleaned():
    outcome = raised(ValueError("a\x00\ud800"))

    assert "\x00" not in outcome.detail and "\ud800" not in outcome.detail


# -- what becomes of the job -------------------------------------------------------------------


@pytest.fixture
def job(user):
    return make_job(user, "processing", worker="host/machine/1/1/abcd", max_attempts=2)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("outcome", "status", "code", "result"),
    [
        (Outcome("r"), "completed", "", "r"),
        (
            Outcome("r", FailureCode.SOME_ITEMS_FAILED, "m", is_partial=True),
            "partial",
            "some_items_failed",
            "r",
        ),
        (Outcome(code=FailureCode.CANCELLED), "failed", "cancelled", None),
        (Outcome(code=FailureCode.HANDLER_ERROR, message="m"), "failed", "handler_error", None),
        (Outcome({1}), "failed", "invalid_result", None),
        (
            Outcome({1}, FailureCode.SOME_ITEMS_FAILED, "m", is_partial=True),
            "failed",
            "invalid_result",
            None,
        ),
    ],
    ids=lambda value: "" if isinstance(value, Outcome) else repr(value),
)
def test_an_outcome_is_applied_to_a_job(job, outcome, status, code, result):
    outcome.apply(job)
    job.save()

    job.refresh_from_db()
    assert (job.status, job.failure_code, job.result) == (status, code, result)


@pytest.mark.django_db
def test_a_repeatable_outcome_waits_for_the_next_attempt(job):
    Outcome(code=FailureCode.HANDLER_ERROR, message="m", is_repeatable=True).apply(job)
    job.save()

    job.refresh_from_db()
    assert (job.status, job.worker, job.attempt) == ("processing", "", 1)
    assert (job.error_message, job.failure_code) == ("", "")
    assert job.due_at > job.updated_at
    assert job.transitions.order_by("id").last().message == "m"


@pytest.mark.django_db
@pytest.mark.parametrize("reason", ["last attempt", "cancel requested"])
def test_a_repeatable_outcome_fails_where_nothing_may_follow(job, user, reason):
    if reason == "last attempt":
        Job.objects.filter(pk=job.pk).update(max_attempts=1)
    else:
        job.request_cancel(actor=user)
        job.save()
    job.refresh_from_db()

    Outcome(code=FailureCode.HANDLER_ERROR, message="m", is_repeatable=True).apply(job)

    assert (job.status, job.error_message) == ("failed", "m")


@pytest.mark.django_db
def test_the_delay_follows_from_the_type_and_the_attempt(user, handler):
    name = handler(lambda job: None, retry_delay=100)
    job = make_job(
        user, "processing", worker="host/machine/1/1/abcd", max_attempts=5, job_type=name
    )
    outcome = Outcome(code=FailureCode.HANDLER_ERROR, message="m", is_repeatable=True)

    outcome.apply(job)
    first = (job.due_at - job.updated_at).total_seconds()
    job.save()
    job.resume(worker="host/machine/1/1/abcd", lease=30)
    outcome.apply(job)
    second = (job.due_at - job.updated_at).total_seconds()

    assert 80 <= first <= 120
    assert 160 <= second <= 240
