import datetime as dt
import logging

import pytest
from django.db import (
    DataError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    ProgrammingError,
    connection,
)

from django_jobs.exceptions import LeaseLost
from django_jobs.execution import finish as finishing
from django_jobs.execution.finish import finish
from django_jobs.execution.outcome import Outcome
from django_jobs.models import FailureCode, Job, clock, persistence, transient
from django_jobs.services import cancel_job
from django_jobs.testing import make_job
from tests.execution.losing import reply_lost

pytestmark = pytest.mark.django_db(transaction=True)

WELL = Outcome({"a": 1})
BADLY = Outcome(code=FailureCode.HANDLER_ERROR, message="boom", is_repeatable=True)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(transient, "WAIT", 0)


@pytest.fixture
def job(user):
    return make_job(user, "processing", worker="host/machine/1/1/abcd", max_attempts=2)


def failing(monkeypatch, error, *, times, before=True):
    """Let the next writes fail with ``error``, before or after they have happened."""
    update, left = persistence.update, [times]

    def unreliable(*args, **options):
        if not left[0]:
            return update(*args, **options)
        left[0] -= 1
        if not before:
            update(*args, **options)
        raise error

    monkeypatch.setattr(finishing.persistence, "update", unreliable)
    return left


def stored(job):
    return Job.objects.get(pk=job.pk)


def log_of(job):
    return list(job.transitions.order_by("id").values_list("to_status", "code"))


def test_an_outcome_is_written_with_its_log(job):
    finish(job, WELL, "default", patience=0)

    assert (stored(job).status, stored(job).result) == ("completed", {"a": 1})
    assert log_of(job)[-1] == ("completed", "")


def test_an_outcome_may_be_another_attempt(job):
    finish(job, BADLY, "default", patience=0)

    assert (stored(job).status, stored(job).worker) == ("processing", "")
    assert log_of(job)[-1] == ("processing", "handler_error")


# -- a database that is away -------------------------------------------------------------------


@pytest.mark.parametrize("error", [OperationalError("gone"), InterfaceError("closed")])
@pytest.mark.parametrize("outcome", [WELL, BADLY], ids=["well", "badly"])
def test_a_database_that_comes_back_gets_the_outcome(job, monkeypatch, caplog, error, outcome):
    left = failing(monkeypatch, error, times=3)

    finish(job, outcome, "default", patience=60)

    assert left == [0]
    assert len(log_of(job)) == 3
    assert stored(job).version == 2
    assert str(job.pk) in caplog.text and job.job_type in caplog.text


@pytest.mark.parametrize("error", [OperationalError("gone"), InterfaceError("closed")])
def test_a_database_that_stays_away_is_given_up(job, monkeypatch, error):
    failing(monkeypatch, error, times=10**9)

    with pytest.raises(type(error)):
        finish(job, WELL, "default", patience=0.01)

    assert stored(job).status == "processing"


def test_another_error_is_not_tried_again(job, monkeypatch):
    left = failing(monkeypatch, ProgrammingError("a bug"), times=2)

    with pytest.raises(ProgrammingError):
        finish(job, WELL, "default", patience=60)

    assert left == [1]


@pytest.mark.parametrize("outcome", [WELL, BADLY], ids=["well", "badly"])
def test_a_reply_that_was_lost_is_not_a_lease_that_was_lost(job, outcome):
    with reply_lost(at=1):
        finish(job, outcome, "default", patience=60)

    assert len(log_of(job)) == 3
    assert stored(job).version == 2


# -- an outcome that the database refuses ------------------------------------------------------


@pytest.mark.parametrize("error", [DataError("too long"), IntegrityError("forbidden")])
def test_a_result_that_the_database_refuses_fails_the_job(job, monkeypatch, caplog, error):
    failing(monkeypatch, error, times=1)

    finish(job, WELL, "default", patience=60)

    job = stored(job)
    assert (job.status, job.failure_code, job.result) == ("failed", "invalid_result", None)
    assert type(error).__name__ in job.error_message
    assert str(job.pk) in caplog.text


@pytest.mark.parametrize("error", [DataError("too long"), IntegrityError("forbidden")])
def test_a_database_that_refuses_everything_does_not_keep_the_worker(job, monkeypatch, error):
    left = failing(monkeypatch, error, times=20)

    with pytest.raises(type(error)):
        finish(job, WELL, "default", patience=60)

    assert left[0] > 10


# -- somebody else decided ---------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [WELL, BADLY], ids=["well", "badly"])
@pytest.mark.parametrize(
    "change",
    [{"worker": "host/machine/2/2/efgh"}, {"attempt": 2}],
    ids=["another worker", "another attempt"],
)
def test_an_attempt_that_is_somebody_else_s_is_left_alone(job, outcome, change):
    Job.objects.filter(pk=job.pk).update(**change)
    before = Job.objects.filter(pk=job.pk).values().get()

    with pytest.raises(LeaseLost):
        finish(job, outcome, "default", patience=60)

    assert Job.objects.filter(pk=job.pk).values().get() == before
    assert len(log_of(job)) == 2


@pytest.mark.parametrize("outcome", [WELL, BADLY], ids=["well", "badly"])
def test_a_job_that_has_ended_stays_as_it_is(job, outcome):
    other = stored(job)
    other.fail("by hand")
    other.save()
    before = Job.objects.filter(pk=job.pk).values().get()

    with pytest.raises(LeaseLost):
        finish(job, outcome, "default", patience=60)

    assert Job.objects.filter(pk=job.pk).values().get() == before


@pytest.mark.parametrize("outcome", [WELL, BADLY], ids=["well", "badly"])
def test_a_job_that_is_gone_stays_gone(job, outcome):
    stored(job).delete()

    with pytest.raises(LeaseLost, match="no longer exists"):
        finish(job, outcome, "default", patience=60)

    assert Job.objects.count() == 0


# -- somebody asked to cancel ------------------------------------------------------------------


def test_an_attempt_is_not_followed_by_another_once_somebody_asked_to_cancel(job, user):
    cancel_job(job.pk, actor=user, reason="wrong file")

    finish(job, BADLY, "default", patience=60)

    job = stored(job)
    assert (job.status, job.failure_code) == ("failed", "cancelled")
    assert job.error_message == "The job was cancelled: wrong file"


def test_what_went_well_is_not_cancelled(job, user):
    cancel_job(job.pk, actor=user)

    finish(job, WELL, "default", patience=60)

    assert stored(job).status == "completed"


def test_what_was_reported_last_goes_with_a_cancelled_job_too(job, user):
    cancel_job(job.pk, actor=user)
    job.keep_reports(progress=70, progress_message="nearly done", items_total=3, items_succeeded=3)

    finish(job, BADLY, "default", patience=60)

    job = stored(job)
    assert (job.status, job.progress, job.progress_message) == ("failed", 70, "nearly done")
    assert (job.items_total, job.items_succeeded) == (3, 3)


def test_the_connection_is_as_it_was(job, caplog):
    with caplog.at_level(logging.WARNING):
        finish(job, WELL, "default", patience=0)

    assert connection.get_autocommit()
    assert caplog.records == []


# -- a request to cancel that the worker has not seen ------------------------------------------


@pytest.mark.parametrize("ahead", [-1, 0, 1], ids=["its clock is behind", "is right", "is ahead"])
def test_an_end_stays_what_it_is_and_follows_the_request_in_the_log(job, monkeypatch, ahead):
    with monkeypatch.context() as elsewhere:
        there = clock.now() + dt.timedelta(seconds=ahead)
        elsewhere.setattr(clock, "now", lambda using=None: there)
        cancel_job(job.pk, actor=job.user, reason="too slow")

    finish(job, WELL, "default", patience=0)

    assert stored(job).status == "completed"
    assert log_of(job) == [
        ("queued", ""),
        ("processing", ""),
        ("processing", "cancelled"),
        ("completed", ""),
    ]
    times = list(job.transitions.order_by("id").values_list("created_at", flat=True))
    assert times == sorted(set(times))


def test_after_the_request_somebody_else_may_have_decided(job, monkeypatch):
    cancel_job(job.pk, actor=job.user)
    update, calls = persistence.update, []

    def taken_at_the_second_try(*arguments, **options):
        calls.append(options)
        if len(calls) == 2:
            other = Job.objects.get(pk=job.pk)
            other.fail("It was lost.", FailureCode.WORKER_LOST)
            update(other, "default")
        update(*arguments, **options)

    monkeypatch.setattr(persistence, "update", taken_at_the_second_try)

    with pytest.raises(LeaseLost):
        finish(job, WELL, "default", patience=0)

    assert stored(job).failure_code == "worker_lost"
