import copy
import datetime as dt
import pickle

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from django_jobs.exceptions import InvalidResult, InvalidStateTransitionError, JobsError, StaleJob
from django_jobs.handlers import register_job_type
from django_jobs.models import Job, JobTransition, clock
from django_jobs.models.attempts import NOBODY
from django_jobs.models.job import cancel_message
from django_jobs.states import TERMINAL_STATES, FailureCode, JobStatus
from django_jobs.testing import make_job
from tests.stored import Statements, log_of, row_of, steps_of, stored

pytestmark = pytest.mark.django_db

WORKER = "host/machine/1/2/abcd"
DEFERRALS = {
    "only the key": lambda jobs: jobs.only("id"),
    "only the type": lambda jobs: jobs.only("job_type"),
    "no status": lambda jobs: jobs.defer("status"),
    "no fence": lambda jobs: jobs.defer("status", "attempt", "worker"),
    "no times": lambda jobs: jobs.defer("created_at", "started_at", "due_at"),
    "no version": lambda jobs: jobs.defer("version", "updated_at"),
}
deferrals = pytest.mark.parametrize("deferred", DEFERRALS.values(), ids=DEFERRALS.keys())


def running(user, **fields):
    """Return a job whose attempt is open, as loaded."""
    return Job.objects.get(pk=make_job(user, JobStatus.PROCESSING, **fields).pk)


def seconds_between(earlier, later):
    return (later - earlier).total_seconds()


async def afail_all(jobs):
    await jobs.aupdate(status="failed")


# -- new jobs --------------------------------------------------------------------------------------


def test_a_new_job_is_queued_and_logged(user):
    job = Job(user=user, job_type="report")
    job.save()

    row = row_of(job)
    assert (row["status"], row["progress"], row["attempt"], row["worker"]) == ("queued", 0, 0, "")
    assert row["due_at"] == row["created_at"] == row["updated_at"]
    assert (row["started_at"], row["completed_at"], row["result"]) == (None, None, None)
    [entry] = log_of(job)
    assert (entry["from_status"], entry["to_status"]) == ("", "queued")
    assert (entry["actor_id"], entry["created_at"]) == (user.pk, row["created_at"])


def test_who_ordered_a_job_is_the_actor_of_its_first_line(user, other_user):
    job = Job(user=user, job_type="report")
    job.ordered_by = other_user
    job.save()
    assert [entry["actor_id"] for entry in log_of(job)] == [other_user.pk]


def test_a_job_with_a_start_time_is_due_then(user):
    run_at = clock.now() + dt.timedelta(hours=3)
    job = make_job(user, run_at=run_at)
    assert job.due_at == job.run_at == run_at


def test_a_start_time_in_the_past_means_now(user):
    job = make_job(user, run_at=clock.now() - dt.timedelta(days=1))
    assert job.due_at == job.created_at


def test_how_long_a_job_waits_is_said_by_its_type(user):
    register_job_type("patient", queue_timeout=90)
    job = make_job(user, job_type="patient")
    assert seconds_between(job.due_at, job.start_deadline_at) == 90


def test_a_job_may_wait_for_ever(user):
    register_job_type("very patient", queue_timeout=None)
    assert make_job(user, job_type="very patient").start_deadline_at is None


def test_a_job_of_an_unknown_type_waits_as_long_as_the_default(user, settings):
    settings.DJANGO_JOBS = {"DEFAULT_QUEUE_TIMEOUT": 7}
    job = make_job(user, job_type="of a newer release")
    assert job.type is None
    assert seconds_between(job.due_at, job.start_deadline_at) == 7


@pytest.mark.parametrize("status", [status for status in JobStatus if status != JobStatus.QUEUED])
def test_a_new_job_cannot_begin_in_another_state(user, status):
    with pytest.raises(InvalidStateTransitionError, match=f"from 'new' to '{status}'"):
        Job(user=user, job_type="report", status=status).save()
    with pytest.raises(InvalidStateTransitionError):
        Job.objects.create(user=user, job_type="report", status=status)
    assert not Job.objects.exists()
    assert not JobTransition.objects.exists()


def test_a_step_before_the_first_save_is_refused(user):
    job = Job(user=user, job_type="report")
    job.start()
    with pytest.raises(InvalidStateTransitionError):
        job.save()
    assert not Job.objects.exists()


def test_a_job_is_called_by_its_type_and_key(user):
    job = make_job(user, job_type="report")
    assert str(job) == f"report {job.pk}"


# -- the steps -------------------------------------------------------------------------------------


def test_starting_opens_the_first_attempt_of_a_worker(user):
    register_job_type("report", timeout=120)
    job = make_job(user, job_type="report", max_attempts=3)
    job.start(worker=WORKER, lease=30)
    job.save()

    row = row_of(job)
    assert (row["status"], row["attempt"], row["worker"]) == ("processing", 1, WORKER)
    assert row["max_attempts"] == 3
    assert row["start_deadline_at"] is None
    assert seconds_between(row["started_at"], row["due_at"]) == 30
    assert seconds_between(row["started_at"], row["run_deadline_at"]) == 120
    entry = log_of(job)[-1]
    assert (entry["attempt"], entry["worker"]) == (1, WORKER)
    assert entry["created_at"] == row["updated_at"] == row["started_at"]


def test_without_a_timeout_an_attempt_has_no_deadline(user):
    register_job_type("endless", timeout=None)
    job = make_job(user, JobStatus.PROCESSING, job_type="endless", worker=WORKER)
    assert job.run_deadline_at is None


def test_starting_without_a_worker_gives_the_job_to_an_outside_driver(user):
    register_job_type("outside", timeout=120)
    job = make_job(user, job_type="outside", max_attempts=3)
    job.start()
    assert job.worker.startswith("external:")
    assert (job.attempt, job.max_attempts) == (1, 1)
    assert seconds_between(job.started_at, job.due_at) == 120


def test_an_outside_driver_without_a_timeout_may_take_years(user):
    register_job_type("outside", timeout=None)
    job = make_job(user, JobStatus.PROCESSING, job_type="outside")
    assert job.due_at - job.started_at > dt.timedelta(days=3650)


def test_an_outside_drivers_lease_is_renewed_by_the_timeout(user):
    register_job_type("outside", timeout=120)
    job = make_job(user, JobStatus.PROCESSING, job_type="outside")
    before = clock.now()
    job.renew_external_lease()
    assert 120 <= seconds_between(before, job.due_at) < 125


def test_a_withdrawn_job_never_had_an_attempt(user, other_user):
    job = make_job(user)
    job.withdraw(actor=other_user)
    job.fail("Not needed.", FailureCode.CANCELLED, actor=other_user)
    job.save()

    row = row_of(job)
    assert (row["status"], row["failure_code"]) == ("failed", "cancelled")
    assert (row["attempt"], row["started_at"], row["worker"]) == (0, None, NOBODY)
    assert (row["due_at"], row["start_deadline_at"]) == (None, None)
    assert steps_of(job) == ["queued", "processing", "failed"]
    assert [entry["actor_id"] for entry in log_of(job)][1:] == [other_user.pk] * 2


def test_completing_sets_all_that_goes_with_it(user):
    job = running(user)
    job.report(30, "a third")
    job.complete({"rows": 3})
    job.save()

    row = row_of(job)
    assert (row["status"], row["progress"], row["result"]) == ("completed", 100, {"rows": 3})
    assert (row["error_message"], row["failure_code"], row["due_at"]) == ("", "", None)
    assert row["completed_at"] == row["updated_at"]
    assert row["progress_message"] == "a third"


def test_completing_partially_has_a_result_and_a_reason(user):
    job = running(user)
    job.complete_partially([1, 2], "One row was bad.")
    job.save()

    row = row_of(job)
    assert (row["status"], row["progress"], row["result"]) == ("partial", 100, [1, 2])
    assert (row["failure_code"], row["error_message"]) == ("some_items_failed", "One row was bad.")
    entry = log_of(job)[-1]
    assert (entry["code"], entry["message"]) == ("some_items_failed", "One row was bad.")


def test_failing_keeps_the_progress_and_names_the_reason(user):
    job = running(user)
    job.report(30)
    job.fail("No disk.", FailureCode.TIMED_OUT, detail="Traceback ...")
    job.save()

    row = row_of(job)
    assert (row["status"], row["progress"], row["result"]) == ("failed", 30, None)
    assert (row["failure_code"], row["error_message"]) == ("timed_out", "No disk.")
    assert row["completed_at"] == row["updated_at"]
    entry = log_of(job)[-1]
    assert (entry["code"], entry["message"]) == ("timed_out", "No disk.")
    assert entry["detail"] == "Traceback ..."


@pytest.mark.parametrize("code", FailureCode)
@pytest.mark.parametrize("blank", ["", "  \n", None])
def test_a_failure_without_a_message_gets_the_sentence_of_its_code(user, code, blank):
    job = running(user)
    job.fail(blank, code)
    assert job.error_message == code.label


def test_an_unknown_failure_code_changes_nothing(user):
    job = running(user)
    with pytest.raises(ValueError, match="is not a valid FailureCode"):
        job.fail("No disk.", "bad_luck")
    job.save()
    assert row_of(job)["status"] == job.status == "processing"


@pytest.mark.parametrize("result", [float("nan"), "\x00", {1, 2}, {"rows": [object()]}, {1: 2}])
@pytest.mark.parametrize("step", [Job.complete, Job.complete_partially])
def test_a_result_that_cannot_be_stored_changes_nothing(user, step, result):
    job = running(user)
    before = stored(job)
    with pytest.raises(InvalidResult, match=r"^result"):
        step(job, result)
    job.save()
    assert job.status == "processing"
    assert stored(job) == before


def test_a_postponed_job_waits_for_its_next_attempt(user):
    register_job_type("report", queue_timeout=90)
    job = running(user, job_type="report", worker=WORKER, max_attempts=2)
    job.postpone(delay=10, code=FailureCode.WORKER_LOST, message="", detail="seen twice")
    job.save()

    row = row_of(job)
    assert (row["status"], row["attempt"], row["worker"]) == ("processing", 1, "")
    assert seconds_between(row["updated_at"], row["due_at"]) == 10
    assert seconds_between(row["due_at"], row["start_deadline_at"]) == 90
    assert (row["run_deadline_at"], row["completed_at"]) == (None, None)
    entry = log_of(job)[-1]
    assert (entry["from_status"], entry["to_status"]) == ("processing", "processing")
    assert (entry["attempt"], entry["worker"], entry["code"]) == (1, WORKER, "worker_lost")
    assert (entry["message"], entry["detail"]) == (FailureCode.WORKER_LOST.label, "seen twice")


def test_resuming_opens_the_next_attempt_from_zero(user):
    job = running(user, worker=WORKER, max_attempts=2)
    first_start = job.started_at
    job.report(70, "nearly")
    job.items_total = job.items_failed = 4
    job.postpone(delay=0, code=FailureCode.HANDLER_ERROR, message="oops")
    job.save()
    job.resume(worker="another", lease=30)
    job.save()

    row = row_of(job)
    assert (row["attempt"], row["worker"], row["progress"]) == (2, "another", 0)
    assert (row["progress_message"], row["items_total"], row["items_failed"]) == ("", 0, 0)
    assert row["started_at"] == first_start
    assert row["start_deadline_at"] is None
    assert [entry["attempt"] for entry in log_of(job)] == [0, 1, 1, 2]


def test_a_request_to_cancel_says_who_and_why(user, other_user):
    job = running(user, worker=WORKER, max_attempts=2)
    assert job.may_be_repeated
    job.request_cancel(actor=other_user, reason="Wrong file.")
    job.save()

    row = row_of(job)
    assert (row["status"], row["worker"]) == ("processing", WORKER)
    assert row["cancel_requested_by_id"] == other_user.pk
    assert row["cancel_requested_at"] == row["updated_at"]
    assert not job.may_be_repeated
    entry = log_of(job)[-1]
    assert (entry["code"], entry["actor_id"]) == ("cancelled", other_user.pk)
    assert entry["message"] == "The job was cancelled: Wrong file."


def test_a_cancelled_job_reads_well_with_and_without_a_reason():
    assert cancel_message(" ") == "The job was cancelled."
    assert cancel_message("Wrong file.") == "The job was cancelled: Wrong file."


@pytest.mark.parametrize("status", [s for s in JobStatus if s != JobStatus.PROCESSING])
def test_steps_within_processing_are_refused_elsewhere(user, status):
    job = Job.objects.get(pk=make_job(user, status).pk)
    before = stored(job)
    with pytest.raises(InvalidStateTransitionError):
        job.resume(worker=WORKER, lease=1)
    with pytest.raises(InvalidStateTransitionError):
        job.postpone(delay=1, code=FailureCode.WORKER_LOST, message="")
    with pytest.raises(InvalidStateTransitionError):
        job.request_cancel()
    job.save()
    assert stored(job) == before


def test_progress_never_goes_back(user):
    job = running(user)
    job.report(40, "two of five")
    job.report(20)
    job.save()
    row = row_of(job)
    assert (row["progress"], row["progress_message"]) == (40, "two of five")


def test_a_long_progress_message_is_cut(user):
    job = running(user)
    job.report(1, "x" * 500)
    job.save()
    assert len(row_of(job)["progress_message"]) == 200


def test_time_never_runs_backwards_for_a_job(user, monkeypatch):
    job = running(user)
    started_at = job.started_at
    monkeypatch.setattr(clock, "now", lambda using=None: started_at - dt.timedelta(hours=1))
    job.complete()
    assert job.completed_at == job.updated_at > started_at


def running_for(monkeypatch, job, minutes):
    """Let ``minutes`` pass since the open attempt of ``job`` began; return that moment and now."""
    now = job.attempt_started_at + dt.timedelta(minutes=minutes)
    monkeypatch.setattr(clock, "now", lambda using=None: now)
    return job.attempt_started_at, now


@pytest.mark.parametrize(("progress", "minutes"), [(50, 20), (25, 40), (1, 1000), (99, 1000 / 99)])
def test_the_end_is_estimated_from_the_pace_so_far(user, monkeypatch, progress, minutes):
    job = make_job(user, "processing", progress=progress)
    begun, _ = running_for(monkeypatch, job, 10)
    assert seconds_between(begun, job.estimated_completion) == pytest.approx(minutes * 60)


def test_the_pace_is_that_of_the_open_attempt(user, monkeypatch):
    job = make_job(user, "processing", worker=WORKER, max_attempts=2, progress=90)
    running_for(monkeypatch, job, 60)
    job.postpone(delay=0, code=FailureCode.HANDLER_ERROR, message="m")
    assert job.estimated_completion is None
    job.resume(worker=WORKER, lease=30)
    assert job.estimated_completion is None
    job.report(50)
    begun, _ = running_for(monkeypatch, job, 1)
    assert seconds_between(begun, job.estimated_completion) == 120
    job.save()
    row = row_of(job)
    assert round(seconds_between(row["started_at"], row["attempt_started_at"])) == 3600


@pytest.mark.parametrize("progress", [0, 100])
def test_without_a_pace_the_end_is_unknown(user, progress):
    assert make_job(user, "processing", progress=progress).estimated_completion is None


@pytest.mark.parametrize("status", [status for status in JobStatus if status != "processing"])
def test_a_job_that_does_not_run_has_no_estimate(user, status):
    assert make_job(user, status).estimated_completion is None


def test_a_job_that_was_asked_to_stop_has_no_estimate(user):
    job = make_job(user, "processing", progress=50)
    job.request_cancel(actor=user)
    assert job.estimated_completion is None


def test_an_estimate_is_never_after_the_limit_nor_in_the_past(user, handler, monkeypatch):
    name = handler(lambda job: None, timeout=3600)
    job = make_job(user, "processing", worker=WORKER, job_type=name, progress=1)
    running_for(monkeypatch, job, 59)
    assert job.estimated_completion == job.run_deadline_at
    _, now = running_for(monkeypatch, job, 61)
    assert job.estimated_completion == now


def test_an_estimate_beyond_the_calendar_is_none(user, monkeypatch):
    job = make_job(user, "processing", progress=1)
    running_for(monkeypatch, job, 100 * 365 * 24 * 60)
    assert job.estimated_completion is None


@pytest.mark.parametrize("status", JobStatus)
def test_a_job_waits_until_an_attempt_is_open(user, status):
    job = make_job(user, status)
    assert job.is_waiting is (status == JobStatus.QUEUED)
    assert job.is_terminal is (status in TERMINAL_STATES)


def test_nothing_follows_an_unknown_state():
    """A row may be older than the constraint that refuses it."""
    job = Job(status="NONSENSE")
    assert (job.is_terminal, job.is_waiting) == (True, False)


def test_a_job_between_attempts_waits(user):
    job = running(user, worker=WORKER, max_attempts=2)
    job.postpone(delay=1, code=FailureCode.WORKER_LOST, message="")
    assert job.is_waiting


def test_the_last_attempt_is_not_repeated(user):
    job = running(user, worker=WORKER, max_attempts=1)
    assert not job.may_be_repeated


# -- the protection of the state -------------------------------------------------------------------


def test_the_state_of_a_new_job_cannot_be_assigned(user):
    job = Job(user=user, job_type="report")
    with pytest.raises(AttributeError):
        job.status = "completed"
    job.save()
    with pytest.raises(AttributeError):
        job.status = "completed"
    assert row_of(job)["status"] == job.status == "queued"


@deferrals
def test_the_state_of_a_deferred_job_cannot_be_assigned(user, deferred):
    make_job(user)
    job = deferred(Job.objects).get()
    with pytest.raises(AttributeError):
        job.status = "completed"
    assert job.status == "queued"


def test_bulk_writes_of_the_state_are_refused(user):
    jobs = [make_job(user) for _ in range(2)]
    before = [stored(job) for job in jobs]

    for many in (Job.objects, Job.objects.filter(user=user), user.django_jobs):
        with pytest.raises(JobsError, match="by transitions"):
            many.update(status="failed")
        with pytest.raises(JobsError, match="by transitions"):
            many.bulk_update(jobs, ["priority", "status"])
        with pytest.raises(JobsError, match="by transitions"):
            async_to_sync(afail_all)(many)
    with pytest.raises(AttributeError):
        Job.objects.update_or_create(pk=jobs[0].pk, defaults={"status": "failed"})

    assert [stored(job) for job in jobs] == before


def test_bulk_writes_of_other_fields_are_plain(user):
    jobs = [make_job(user) for _ in range(2)]
    assert Job.objects.update(priority=7) == 2
    for job in jobs:
        job.queue = "slow"
    assert Job.objects.bulk_update(jobs, ["queue"]) == 2
    assert set(Job.objects.values_list("queue", "priority")) == {("slow", 7)}


def test_a_reload_shows_what_happened_elsewhere_and_forgets_unsaved_steps(user):
    job = make_job(user)
    elsewhere = Job.objects.get(pk=job.pk)
    elsewhere.start(worker=WORKER, lease=5)
    elsewhere.save()
    job.withdraw()

    job.refresh_from_db()
    assert (job.status, job.worker) == ("processing", WORKER)
    job.complete()
    job.save()
    assert steps_of(job) == ["queued", "processing", "completed"]


def test_a_reload_of_some_fields_keeps_unsaved_steps(user):
    job = make_job(user)
    job.start()
    job.refresh_from_db(fields=["priority"])
    job.save()
    assert steps_of(job) == ["queued", "processing"]


def test_a_job_forgets_steps_on_demand(user):
    job = running(user)
    before = stored(job)
    job.fail("No disk.")
    job.forget_steps()
    job.save()
    assert job.status == "processing"
    assert stored(job) == before


# -- deferred fields -------------------------------------------------------------------------------


@deferrals
def test_deferred_fields_cost_no_query_for_each_row(user, deferred):
    for _ in range(5):
        make_job(user)
    with Statements() as statements:
        assert len(list(deferred(Job.objects))) == 5
    assert statements.sent == ["SELECT django_jobs_job"]


@deferrals
def test_a_job_with_deferred_fields_takes_its_steps(user, deferred):
    key = make_job(user).pk
    job = deferred(Job.objects).get(pk=key)
    job.start(worker=WORKER, lease=5)
    job.save()
    job = deferred(Job.objects).get(pk=key)
    job.complete({"rows": 3})
    job.save()

    row = row_of(job)
    assert (row["status"], row["attempt"], row["worker"]) == ("completed", 1, WORKER)
    assert (row["progress"], row["result"], row["version"]) == (100, {"rows": 3}, 2)
    assert steps_of(job) == ["queued", "processing", "completed"]


@deferrals
def test_a_job_with_deferred_fields_is_saved_without_a_step(user, deferred):
    key = make_job(user).pk
    job = deferred(Job.objects).get(pk=key)
    job.priority = 5
    job.save()
    assert (row_of(job)["priority"], row_of(job)["status"]) == (5, "queued")


@deferrals
def test_a_stale_job_with_deferred_fields_is_refused_its_step(user, deferred):
    key = make_job(user, JobStatus.PROCESSING).pk
    job = deferred(Job.objects).get(pk=key)
    job.fail("No disk.")
    elsewhere = Job.objects.get(pk=key)
    elsewhere.complete()
    elsewhere.save()
    before = stored(job)
    with pytest.raises(StaleJob):
        job.save()
    assert stored(job) == before


@deferrals
def test_a_terminal_job_with_deferred_fields_is_not_changed(user, deferred):
    key = make_job(user, JobStatus.COMPLETED).pk
    before = stored(Job(pk=key))
    job = deferred(Job.objects).get(pk=key)
    job.priority = 5
    with pytest.raises((StaleJob, InvalidStateTransitionError)):
        job.save()
    assert stored(job) == before


# -- copies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", JobStatus)
@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda job: pickle.loads(pickle.dumps(job))]
)
def test_a_copy_of_a_job_is_as_good_as_the_job(user, status, copied):
    job = Job.objects.get(pk=make_job(user, status).pk)
    twin = copied(job)
    assert (twin.pk, twin.status, twin.created_at) == (job.pk, job.status, job.created_at)
    with pytest.raises(AttributeError):
        twin.status = "queued"
    if status == JobStatus.QUEUED:
        twin.start()
        twin.save()
        assert row_of(job)["status"] == "processing"
        assert len(log_of(job)) == 2


def test_the_step_of_a_copy_is_not_in_the_log_of_the_original(user):
    job = make_job(user)
    twin = copy.copy(job)
    twin.start()
    job.start()
    job.save()
    with pytest.raises(StaleJob):
        twin.save()
    assert steps_of(job) == ["queued", "processing"]


def test_an_unsaved_step_survives_pickling(user):
    job = running(user)
    job.complete({"rows": 3})
    pickle.loads(pickle.dumps(job)).save()
    assert row_of(job)["status"] == "completed"
    assert steps_of(job) == ["queued", "processing", "completed"]


# -- validation ------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", JobStatus)
def test_a_stored_job_is_valid(user, status):
    job = Job.objects.get(pk=make_job(user, status).pk)
    before = stored(job)
    job.full_clean()
    job.save()
    assert stored(job) == before


def test_the_fields_of_a_new_job_can_be_validated(user):
    job = Job(user=user, job_type="report")
    job.clean_fields()
    job.queue = ""
    with pytest.raises(ValidationError, match="queue"):
        job.clean_fields()


# -- deletion --------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [JobStatus.QUEUED, JobStatus.PROCESSING])
def test_a_job_whose_row_was_deleted_is_not_inserted_again(user, status):
    job = Job.objects.get(pk=make_job(user, status).pk)
    Job.objects.filter(pk=job.pk).delete()

    job.priority = 5
    with pytest.raises(StaleJob, match="no longer exists"):
        job.save()
    if status == JobStatus.QUEUED:
        job.start()
    else:
        job.complete()
    with pytest.raises(StaleJob, match="no longer exists"):
        job.save()

    assert not Job.objects.exists()
    assert not JobTransition.objects.exists()


def test_a_job_goes_with_its_user_and_takes_its_log_along(user, other_user):
    job = make_job(user, JobStatus.COMPLETED)
    kept = make_job(other_user)
    user.delete()
    assert not Job.objects.filter(pk=job.pk).exists()
    assert not JobTransition.objects.filter(job_id=job.pk).exists()
    assert Job.objects.filter(pk=kept.pk).exists()


def test_a_job_outlives_the_user_who_cancelled_it(user, other_user):
    job = running(user, worker=WORKER)
    job.request_cancel(actor=other_user)
    job.save()
    other_user.delete()
    assert row_of(job)["cancel_requested_by_id"] is None
    assert log_of(job)[-1]["actor_id"] is None


def test_a_retry_outlives_the_job_that_it_repeats(user):
    failed = make_job(user, JobStatus.FAILED)
    again = make_job(user, retry_of=failed)
    failed.delete()
    assert row_of(again)["retry_of_id"] is None


# -- terminal rows ---------------------------------------------------------------------------------


@pytest.mark.parametrize("status", TERMINAL_STATES)
@pytest.mark.parametrize(
    "change",
    [
        {"priority": 9},
        {"result": {"rows": 4}},
        {"progress": 1},
        {"error_message": "changed"},
        {"worker": "me"},
        {"completed_at": None},
        {"user_id": None},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_terminal_row_never_changes(user, status, change):
    job = Job.objects.get(pk=make_job(user, status).pk)
    before = stored(job)
    for name, value in change.items():
        setattr(job, name, value)
    with pytest.raises(InvalidStateTransitionError):
        job.save()
    with pytest.raises(InvalidStateTransitionError):
        job.save(update_fields=list(change))
    assert stored(job) == before


def test_a_job_that_became_terminal_in_memory_does_not_change_after_its_save(user):
    job = running(user)
    job.complete()
    job.save()
    before = stored(job)
    job.priority = 9
    with pytest.raises(InvalidStateTransitionError):
        job.save()
    assert stored(job) == before


def test_two_jobs_cannot_repeat_the_same_one(user):
    failed = make_job(user, JobStatus.FAILED)
    make_job(user, retry_of=failed)
    with pytest.raises(IntegrityError, match="retry_of"), transaction.atomic():
        make_job(user, retry_of=failed)
    assert Job.objects.filter(retry_of=failed).count() == 1
