import datetime as dt
import inspect
import uuid

import pytest
from django.db import IntegrityError
from rest_framework import serializers

from django_jobs.exceptions import (
    InvalidParameters,
    InvalidStateTransitionError,
    JobNotFound,
    JobNotRetryable,
    LeaseLost,
    StaleJob,
    TooManyActiveJobs,
    UnknownJobType,
)
from django_jobs.handlers import register_job_type, registry
from django_jobs.models import Job, persistence
from django_jobs.services import cancel_job, create_job, mark_completed, retry_job, steering
from django_jobs.testing import make_job
from tests.naming import readable

pytestmark = pytest.mark.django_db

OUR_WORKER = "host/machine/1/1/abcd"


def log_of(job):
    entries = job.transitions.order_by("id")
    return [(entry.from_status, entry.to_status, entry.code, entry.message) for entry in entries]


# -- cancel what waits -------------------------------------------------------------------------


def test_a_queued_job_that_is_cancelled_ends_at_once(user, other_user, external_type):
    job = cancel_job(create_job(user, external_type).pk, actor=other_user)

    job.refresh_from_db()
    assert (job.status, job.failure_code) == ("failed", "cancelled")
    assert job.error_message == "The job was cancelled."
    assert (job.attempt, job.started_at, job.progress) == (0, None, 0)
    assert job.completed_at is not None
    assert job.due_at is job.start_deadline_at is None


def test_it_goes_through_processing_in_two_logged_steps(user, other_user):
    job = cancel_job(make_job(user).pk, actor=other_user)

    assert log_of(job)[1:] == [
        ("queued", "processing", "", ""),
        ("processing", "failed", "cancelled", "The job was cancelled."),
    ]
    assert [entry.actor for entry in job.transitions.order_by("id")][1:] == [other_user] * 2


def test_a_delayed_job_can_be_cancelled(user, external_type):
    job = make_job(user)
    Job.objects.filter(pk=job.pk).update(due_at=job.due_at + dt.timedelta(days=1))

    assert cancel_job(job.pk, actor=user).status == "failed"


def test_a_job_between_attempts_that_is_cancelled_ends_at_once(postponed_job, user):
    job = cancel_job(postponed_job.pk, actor=user)

    job.refresh_from_db()
    assert (job.status, job.failure_code, job.attempt) == ("failed", "cancelled", 1)
    assert job.started_at is not None


@pytest.mark.parametrize("status", ["queued", "processing"])
def test_the_reason_is_part_of_the_message(user, status):
    job = make_job(user, status)

    cancel_job(job.pk, actor=user, reason="  wrong file, password=hunter2 ")

    expected = "The job was cancelled: wrong file, password=***"
    assert log_of(job)[-1][3] == expected
    if status == "queued":
        assert Job.objects.get(pk=job.pk).error_message == expected


def test_a_reason_is_cleaned_and_cut(user):
    job = cancel_job(make_job(user).pk, actor=user, reason="a\x00" + "x" * 9000)

    job.refresh_from_db()
    assert job.error_message.startswith("The job was cancelled: a\ufffdxxx")
    assert len(job.error_message) <= 4000


def test_nobody_in_particular_may_cancel(user):
    job = cancel_job(make_job(user).pk, actor=None)

    assert job.transitions.order_by("id").last().actor is None


# -- ask what runs to stop ---------------------------------------------------------------------


@pytest.mark.parametrize("worker", [OUR_WORKER, None], ids=["ours", "outside"])
def test_a_running_job_is_asked_to_stop(user, other_user, worker):
    running = make_job(user, "processing", worker=worker)

    job = cancel_job(running.pk, actor=other_user, reason="wrong file")

    job.refresh_from_db()
    assert (job.status, job.worker, job.due_at) == ("processing", running.worker, running.due_at)
    assert job.cancel_requested_at is not None
    assert job.cancel_requested_by == other_user
    assert log_of(job)[-1] == (
        "processing",
        "processing",
        "cancelled",
        "The job was cancelled: wrong file",
    )


def test_who_asks_first_is_remembered(held_job, user, other_user, nothing_written):
    cancel_job(held_job.pk, actor=user)

    with nothing_written():
        job = cancel_job(held_job.pk, actor=other_user, reason="me too")

    assert job.cancel_requested_by == user


def test_a_job_that_was_asked_to_stop_may_still_end_well(driven_job, user):
    cancel_job(driven_job.pk, actor=user)

    assert mark_completed(driven_job.pk).status == "completed"


# -- cancel what has ended ---------------------------------------------------------------------


@pytest.mark.parametrize("status", ["completed", "partial", "failed"])
def test_a_job_that_has_ended_cannot_be_cancelled(user, status, nothing_written):
    job = make_job(user, status)

    with nothing_written(), pytest.raises(InvalidStateTransitionError) as raised:
        cancel_job(job.pk, actor=user)

    assert str(raised.value) == f"Cannot transition from '{status}' to 'failed'"


def test_a_cancelled_job_comes_back_as_it_is(user, other_user, nothing_written):
    job = cancel_job(make_job(user).pk, actor=user, reason="first")

    with nothing_written():
        again = cancel_job(job.pk, actor=other_user, reason="second")

    assert again.error_message == "The job was cancelled: first"


@pytest.mark.parametrize("job_id", ["x", "", None, uuid.UUID(int=0)], ids=readable)
@pytest.mark.parametrize("verb", [cancel_job, retry_job])
def test_an_unknown_job_is_not_found(user, verb, job_id):
    with pytest.raises(JobNotFound):
        verb(job_id, actor=user)


@pytest.mark.parametrize("verb", [cancel_job, retry_job])
def test_it_must_be_said_who_acts(user, verb):
    job = make_job(user, "failed")

    with pytest.raises(TypeError):
        verb(job.pk)
    with pytest.raises(TypeError):
        verb(job.pk, user)


# -- cancelling and the worker at once ---------------------------------------------------------


def interfere(monkeypatch, *steps):
    """Let each of ``steps`` happen after the job was read and before it is written."""
    update, left = persistence.update, list(steps)

    def late(job, alias, **options):
        if left:
            left.pop(0)(job)
        update(job, alias, **options)

    monkeypatch.setattr(persistence, "update", late)
    return left


def claim(job):
    other = Job.objects.get(pk=job.pk)
    other.start(worker=OUR_WORKER, lease=30)
    Job.objects.filter(pk=job.pk).guarded_update(
        status="processing", worker=OUR_WORKER, attempt=1, started_at=other.started_at
    )


def renew(job):
    Job.objects.filter(pk=job.pk).update(due_at=job.due_at + dt.timedelta(seconds=30))


def test_a_job_that_is_claimed_meanwhile_is_asked_to_stop(user, monkeypatch):
    job = make_job(user)
    left = interfere(monkeypatch, claim)

    job = cancel_job(job.pk, actor=user)

    assert left == []
    assert (job.status, job.attempt, job.cancel_requested_by) == ("processing", 1, user)


def test_a_lease_that_is_renewed_meanwhile_does_not_lose_the_request(held_job, user, monkeypatch):
    interfere(monkeypatch, renew)

    assert cancel_job(held_job.pk, actor=user).cancel_requested_at is not None


def test_a_row_that_never_stands_still_is_given_up(held_job, user, monkeypatch):
    def move_on(job):
        Job.objects.filter(pk=job.pk).update(due_at=job.due_at + dt.timedelta(seconds=1))

    left = interfere(monkeypatch, *[move_on] * 100)

    with pytest.raises(StaleJob):
        cancel_job(held_job.pk, actor=user)

    assert len(left) == 100 - steering.TRIES


# -- retry -------------------------------------------------------------------------------------


@pytest.fixture
def failed_job(user, external_type):
    return make_job(
        user,
        "failed",
        job_type=external_type,
        error_message="out of paper",
        progress=40,
        parameters={"a": 1},
        queue="slow",
        priority=7,
        idempotency_key="k",
    )


@pytest.mark.parametrize("status", ["failed", "partial"])
def test_a_job_that_did_not_go_well_can_be_retried(user, external_type, status):
    job = make_job(user, status, job_type=external_type, parameters={"a": 1})

    again = retry_job(job.pk, actor=user)

    assert again.pk != job.pk
    assert (again.status, again.retry_of_id, again.parameters) == ("queued", job.pk, {"a": 1})


def test_the_new_job_is_clean(failed_job, user):
    again = retry_job(failed_job.pk, actor=user)

    again.refresh_from_db()
    assert (again.user, again.job_type) == (user, failed_job.job_type)
    assert (again.queue, again.priority) == ("slow", 7)
    assert (again.progress, again.attempt, again.worker) == (0, 0, "")
    assert (again.error_message, again.failure_code, again.result) == ("", "", None)
    assert (again.items_total, again.progress_message) == (0, "")
    assert again.started_at is again.completed_at is again.cancel_requested_at is None
    assert again.idempotency_key is again.run_at is None
    assert again.created_at > failed_job.created_at
    assert list(again.assets.all()) == []


def test_the_old_job_stays_as_it_was(failed_job, user):
    before = Job.objects.filter(pk=failed_job.pk).values().get()

    again = retry_job(failed_job.pk, actor=user)

    assert Job.objects.filter(pk=failed_job.pk).values().get() == before
    assert Job.objects.get(pk=failed_job.pk).retried_by == again


def test_who_retries_is_logged_and_the_owner_stays(failed_job, user, other_user):
    again = retry_job(failed_job.pk, actor=other_user)

    (entry,) = again.transitions.all()
    assert again.user == user
    assert (entry.to_status, entry.actor) == ("queued", other_user)


def test_nobody_in_particular_may_retry(failed_job):
    (entry,) = retry_job(failed_job.pk, actor=None).transitions.all()

    assert entry.actor is None


def test_a_job_is_retried_once(failed_job, user, nothing_written):
    retry_job(failed_job.pk, actor=user)

    with nothing_written(), pytest.raises(JobNotRetryable, match="was retried already"):
        retry_job(failed_job.pk, actor=user)


def test_another_fault_is_not_taken_for_a_second_retry(failed_job, user, monkeypatch):
    def refuse(*args):
        raise IntegrityError("another fault")

    monkeypatch.setattr(steering, "enter", refuse)

    with pytest.raises(IntegrityError, match="another fault"):
        retry_job(failed_job.pk, actor=user)


def test_a_retry_can_be_retried(failed_job, user):
    second = retry_job(failed_job.pk, actor=user)
    cancel_job(second.pk, actor=user)

    assert retry_job(second.pk, actor=user).retry_of == second


@pytest.mark.parametrize("status", ["queued", "processing", "completed"])
def test_a_job_that_has_not_failed_is_not_retried(user, status, nothing_written):
    job = make_job(user, status)

    with nothing_written(), pytest.raises(JobNotRetryable, match=f"is {status}: only a failed"):
        retry_job(job.pk, actor=user)


def test_a_retry_gets_the_options_that_its_type_has_now(user, handler):
    name = handler(lambda job: None, max_attempts=5, queue_timeout=60)
    job = make_job(user, "failed", job_type=name, max_attempts=1)

    again = retry_job(job.pk, actor=user)

    assert again.max_attempts == 5
    assert again.start_deadline_at == again.due_at + dt.timedelta(seconds=60)


def test_a_type_that_is_gone_cannot_be_retried(failed_job, user, nothing_written):
    registry.remove(failed_job.job_type)

    with nothing_written(), pytest.raises(UnknownJobType):
        retry_job(failed_job.pk, actor=user)


def test_parameters_that_are_no_longer_valid_cannot_be_retried(user, nothing_written):
    class Size(serializers.Serializer):
        width = serializers.IntegerField()

    register_job_type("sized", parameters=Size)
    job = make_job(user, "failed", job_type="sized", parameters={"size": 1})

    with nothing_written(), pytest.raises(InvalidParameters) as raised:
        retry_job(job.pk, actor=user)

    assert raised.value.errors == {"width": ["This field is required."]}


def test_a_retry_counts_as_an_active_job(user, nothing_written):
    register_job_type("limited", max_active_per_user=1)
    job = make_job(user, "failed", job_type="limited")
    create_job(user, "limited")

    with nothing_written(), pytest.raises(TooManyActiveJobs):
        retry_job(job.pk, actor=user)


def test_a_job_whose_retry_is_deleted_can_be_retried_again(failed_job, user):
    retry_job(failed_job.pk, actor=user).delete()

    assert retry_job(failed_job.pk, actor=user).retry_of_id == failed_job.pk


def test_cancelling_is_refused_to_nobody_but_needs_no_fence(held_job, user):
    with pytest.raises(LeaseLost):
        mark_completed(held_job.pk)

    assert cancel_job(held_job.pk, actor=user).cancel_requested_at is not None


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        (cancel_job, "(job_id, *, actor, reason='')"),
        (retry_job, "(job_id, *, actor, only_failed=False)"),
    ],
)
def test_the_signatures_are_as_documented(service, expected):
    parameters = inspect.signature(service).parameters.values()
    bare = [parameter.replace(annotation=parameter.empty) for parameter in parameters]

    assert str(inspect.Signature(bare)) == expected
