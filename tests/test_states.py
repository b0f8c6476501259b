"""The states as data, and all 25 pairs of them, generated from the table of legal steps."""

import itertools

import pytest

from django_jobs.exceptions import InvalidStateTransitionError, StaleJob
from django_jobs.models import Job
from django_jobs.services import transition_status
from django_jobs.states import (
    LIVE_STATES,
    RETRYABLE_CODES,
    TERMINAL_STATES,
    VALID_TRANSITIONS,
    FailureCode,
    JobStatus,
    is_terminal_state,
)
from django_jobs.testing import make_job
from tests.stored import log_of, row_of, steps_of, stored

QUEUED, PROCESSING = JobStatus.QUEUED, JobStatus.PROCESSING
COMPLETED, FAILED, PARTIAL = JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.PARTIAL

PAIRS = list(itertools.product(JobStatus, JobStatus))
LEGAL = [(source, target) for source, targets in VALID_TRANSITIONS.items() for target in targets]
ILLEGAL = [pair for pair in PAIRS if pair not in LEGAL]


def refused(source, target):
    """Expect the error that names both states."""
    message = f"Cannot transition from '{source}' to '{target}'"
    return pytest.raises(InvalidStateTransitionError, match=f"^{message}$")


def take(job, target):
    """Take the step to ``target`` in memory, if there is one."""
    if target == PROCESSING:
        job.start()
    elif target == COMPLETED:
        job.complete({"rows": 3})
    elif target == PARTIAL:
        job.complete_partially({"rows": 2}, "One row was bad.")
    elif target == FAILED:
        job.fail("No disk.")
    else:  # no step leads back to the queue: all that is left to try is this
        job.status = target


def refused_by_model(source, target):
    return pytest.raises(AttributeError) if target == QUEUED else refused(source, target)


def first_legal_step(status):
    return next(iter(VALID_TRANSITIONS[status]), None)


# -- the data --------------------------------------------------------------------------------------


def test_there_are_five_states():
    assert JobStatus.values == ["queued", "processing", "completed", "failed", "partial"]


def test_the_legal_steps_are_those_of_the_diagram():
    assert VALID_TRANSITIONS == {
        "queued": ("processing",),
        "processing": ("completed", "partial", "failed"),
        "completed": (),
        "failed": (),
        "partial": (),
    }


def test_every_state_is_either_live_or_terminal():
    assert set(LIVE_STATES) == {QUEUED, PROCESSING}
    assert set(TERMINAL_STATES) == {COMPLETED, FAILED, PARTIAL}


@pytest.mark.parametrize("status", JobStatus)
def test_a_state_is_terminal_if_no_step_leads_out_of_it(status):
    assert is_terminal_state(status) is (not VALID_TRANSITIONS[status])
    assert is_terminal_state(str(status)) is is_terminal_state(status)


@pytest.mark.parametrize("unknown", ["", "paused", "QUEUED", None])
def test_of_an_unknown_state_nothing_can_be_said(unknown):
    with pytest.raises(ValueError, match="is not a valid JobStatus"):
        is_terminal_state(unknown)


def test_every_failure_code_has_a_sentence_for_the_user():
    assert all(str(code.label).endswith(".") for code in FailureCode)


def test_only_what_was_nobodys_decision_is_retried():
    assert sorted(RETRYABLE_CODES) == ["handler_error", "shutdown", "timed_out", "worker_lost"]


def test_the_steps_of_the_model_are_the_legal_ones():
    steps = Job._meta.get_field("status").get_all_transitions(Job)
    assert {(step.source, step.target) for step in steps if step.target} == set(LEGAL)


def test_steps_within_a_state_exist_in_processing_only():
    steps = Job._meta.get_field("status").get_all_transitions(Job)
    assert {step.source for step in steps if not step.target} == {PROCESSING}


def test_the_pairs_cover_the_table():
    assert (len(PAIRS), len(LEGAL), len(ILLEGAL)) == (25, 4, 21)


# -- through the model -----------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize(("source", "target"), LEGAL)
def test_a_legal_step_of_the_model_is_written_with_one_line_of_log(user, source, target):
    job = Job.objects.get(pk=make_job(user, source).pk)
    before = log_of(job)

    take(job, target)
    job.save()

    assert row_of(job)["status"] == target
    *earlier, entry = log_of(job)
    assert earlier == before
    assert (entry["from_status"], entry["to_status"]) == (source, target)


@pytest.mark.django_db
@pytest.mark.parametrize(("source", "target"), ILLEGAL)
def test_an_illegal_step_of_the_model_changes_nothing(user, source, target):
    job = Job.objects.get(pk=make_job(user, source).pk)
    before = stored(job)

    with refused_by_model(source, target):
        take(job, target)
    job.save()

    assert job.status == source
    assert stored(job) == before


@pytest.mark.django_db
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_assigning_a_state_is_no_step(user, source, target):
    job = Job.objects.get(pk=make_job(user, source).pk)
    before = stored(job)

    with pytest.raises(AttributeError, match="use a transition"):
        job.status = target
    job.save()

    assert job.status == source
    assert stored(job) == before


# -- through the service ---------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize(("source", "target"), LEGAL)
def test_a_legal_step_of_the_service_is_written_with_one_line_of_log(user, source, target):
    job = make_job(user, source)
    before = log_of(job)

    returned = transition_status(job.pk, target, actor=user)

    assert returned.status == target
    assert row_of(job)["status"] == target
    *earlier, entry = log_of(job)
    assert earlier == before
    assert (entry["from_status"], entry["to_status"]) == (source, target)
    assert entry["actor_id"] == user.pk


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("source", "target"), [pair for pair in ILLEGAL if pair != (PROCESSING, PROCESSING)]
)
def test_an_illegal_step_of_the_service_changes_nothing(user, source, target):
    job = make_job(user, source)
    before = stored(job)

    with refused(source, target):
        transition_status(job.pk, target)

    assert stored(job) == before


@pytest.mark.django_db
def test_processing_again_is_an_update_of_progress_in_the_service(user):
    job = make_job(user, PROCESSING)
    before, log_before = stored(job)

    transition_status(job.pk, PROCESSING, progress=40)

    after, log_after = stored(job)
    assert log_after == log_before
    changed = {name for name, value in after.items() if value != before[name]}
    assert {"progress"} <= changed <= {"progress", "version", "updated_at", "due_at"}
    assert after["progress"] == 40


# -- through a copy that is stale ------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("source", "target", "elsewhere"),
    [(source, target, other) for source, target in LEGAL for other in VALID_TRANSITIONS[source]],
)
def test_of_two_copies_the_one_that_is_late_is_refused(user, source, target, elsewhere):
    job = make_job(user, source)
    first, second = (Job.objects.get(pk=job.pk) for _ in range(2))
    take(first, elsewhere)
    first.save()
    before = stored(job)

    take(second, target)
    with pytest.raises(StaleJob, match=f"loaded as {source}, .* it is now {elsewhere},"):
        second.save()

    assert stored(job) == before


@pytest.mark.django_db
@pytest.mark.parametrize(("source", "target"), ILLEGAL)
def test_no_illegal_step_gets_through_after_a_legal_one_of_another_copy(user, source, target):
    job = make_job(user, source)
    first, second = (Job.objects.get(pk=job.pk) for _ in range(2))
    if step := first_legal_step(source):
        take(first, step)
        first.save()
    before = stored(job)

    with refused_by_model(source, target):
        take(second, target)
    second.save()

    assert stored(job) == before


@pytest.mark.django_db
def test_a_whole_life_is_three_lines_of_log(user):
    job = make_job(user, COMPLETED)
    assert steps_of(job) == [QUEUED, PROCESSING, COMPLETED]
