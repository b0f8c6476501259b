import datetime as dt
import logging
from contextlib import contextmanager

import pytest
from django.db import transaction

from django_jobs.exceptions import StaleJob
from django_jobs.models import Job, clock, persistence
from django_jobs.signals import job_finished, job_transitioned
from django_jobs.states import FailureCode, JobStatus
from django_jobs.testing import make_job
from tests.stored import Statements, log_of, log_refused, row_of, steps_of, stored

pytestmark = pytest.mark.django_db

WORKER = "host/machine/1/2/abcd"


@pytest.fixture
def running(user):
    """A job whose attempt one of our workers holds, as loaded."""
    job = make_job(user, JobStatus.PROCESSING, worker=WORKER, max_attempts=3)
    return Job.objects.get(pk=job.pk)


@pytest.fixture
def heard():
    """What the signals tell: the states of ``job_transitioned``, then ``finished``."""
    told = []

    def on_step(job, transition, **kwargs):
        told.append(transition.to_status)

    def on_end(job, **kwargs):
        told.append("finished")

    job_transitioned.connect(on_step)
    job_finished.connect(on_end)
    yield told
    job_transitioned.disconnect(on_step)
    job_finished.disconnect(on_end)


def change_behind(job, **values):
    """Change the row as another process would, without a step."""
    assert Job.objects.filter(pk=job.pk).guarded_update(**values) == 1


@contextmanager
def rolled_back():
    """A transaction that comes to nothing."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


# -- what is written -------------------------------------------------------------------------------


def test_a_job_that_did_not_change_is_not_written(running):
    with Statements() as statements:
        running.save()
    assert statements.sent == []


def test_only_what_changed_is_written(running):
    twin = Job.objects.get(pk=running.pk)
    running.priority = 5
    twin.queue = "slow"
    running.save()
    twin.save()
    row = row_of(running)
    assert (row["priority"], row["queue"]) == (5, "slow")


def test_a_change_inside_of_the_parameters_is_a_change(running):
    running.parameters["size"] = {"x": [1]}
    running.save()
    running.parameters["size"]["x"].append(2)
    running.save()
    assert row_of(running)["parameters"] == {"size": {"x": [1, 2]}}

    again = Job.objects.get(pk=running.pk)
    again.parameters["size"]["x"].append(3)
    again.save()
    assert row_of(running)["parameters"] == {"size": {"x": [1, 2, 3]}}


def test_a_change_inside_of_the_parameters_is_forgotten_with_the_steps(running):
    for _ in range(2):
        running.parameters["size"] = 1
        running.forget_steps()
        assert running.parameters == {}


def test_fields_can_be_named(running):
    running.priority, running.queue = 5, "slow"
    running.save(update_fields=["queue"])
    assert (row_of(running)["priority"], row_of(running)["queue"]) == (0, "slow")
    running.save()
    assert row_of(running)["priority"] == 5


def test_a_step_is_written_whole_whatever_fields_are_named(running):
    running.complete({"rows": 3})
    running.save(update_fields=["status"])
    row = row_of(running)
    assert (row["status"], row["result"], row["due_at"]) == ("completed", {"rows": 3}, None)


def test_fields_are_named_by_relation_or_column(running, other_user):
    running.cancel_requested_by = other_user
    running.save(update_fields=["cancel_requested_by"])
    assert row_of(running)["cancel_requested_by_id"] == other_user.pk
    running.cancel_requested_by = None
    running.save(update_fields=["cancel_requested_by_id"])
    assert row_of(running)["cancel_requested_by_id"] is None


def test_the_version_grows_with_every_visible_change(running):
    version, updated_at = running.version, running.updated_at
    running.report(10)
    running.save()
    assert row_of(running)["version"] == running.version == version + 1
    running.complete()
    running.save()
    assert row_of(running)["version"] == running.version == version + 2
    assert row_of(running)["updated_at"] > updated_at


def test_renewing_a_lease_is_no_visible_change(running):
    before = row_of(running)
    running.due_at += dt.timedelta(seconds=30)
    running.save()
    after = row_of(running)
    assert after.pop("due_at") - before.pop("due_at") == dt.timedelta(seconds=30)
    assert after == before


def test_a_change_without_a_step_is_not_logged(running):
    log = log_of(running)
    running.priority = 5
    running.save()
    assert log_of(running) == log


def test_several_steps_are_written_at_once_and_in_order(user):
    job = make_job(user)
    job.start(worker=WORKER, lease=5)
    job.report(30)
    job.complete()
    job.save()
    assert steps_of(job) == ["queued", "processing", "completed"]
    assert row_of(job)["version"] == 1


# -- the guard -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "moved_on",
    [{"attempt": 2}, {"worker": "another"}, {"worker": ""}],
    ids=["attempt", "worker", "no worker"],
)
@pytest.mark.parametrize(
    "write",
    [
        lambda job: job.complete(),
        lambda job: job.fail("No disk."),
        lambda job: job.postpone(delay=1, code=FailureCode.HANDLER_ERROR, message=""),
        lambda job: job.report(50),
    ],
    ids=["complete", "fail", "postpone", "report"],
)
def test_nothing_is_written_for_an_attempt_that_is_over(running, moved_on, write):
    change_behind(running, **moved_on)
    before = stored(running)
    write(running)
    with pytest.raises(StaleJob):
        running.save()
    assert stored(running) == before


def test_the_error_says_what_was_expected_and_what_was_found(running):
    change_behind(running, attempt=2)
    running.complete()
    with pytest.raises(StaleJob) as refusal:
        running.save()
    assert str(refusal.value) == (
        f"Job {running.pk} was loaded as processing, attempt 1; it is now processing, attempt 2."
    )


@pytest.mark.parametrize("field", ["due_at", "cancel_requested_at"])
def test_a_decision_about_a_row_guards_all_that_it_read(running, field):
    change_behind(running, **{field: clock.now() + dt.timedelta(hours=1)})
    before = stored(running)
    running.fail("Lost.", FailureCode.WORKER_LOST)
    with pytest.raises(StaleJob):
        persistence.update(running, "default", guard=persistence.DECISION)
    assert stored(running) == before

    running.save()  # who holds the attempt may end it all the same
    assert row_of(running)["status"] == "failed"


def test_changes_of_other_columns_do_not_make_a_job_stale(running):
    change_behind(running, priority=9, progress=80, version=40)
    running.complete()
    running.save()
    row = row_of(running)
    assert (row["status"], row["priority"], row["version"]) == ("completed", 9, 41)


def test_a_refused_write_can_be_decided_anew(running):
    change_behind(running, attempt=2)
    running.complete()
    with pytest.raises(StaleJob):
        running.save()
    running.refresh_from_db()
    running.fail("No disk.")
    running.save()
    assert steps_of(running) == ["queued", "processing", "failed"]


def test_a_refused_write_is_not_taken_for_written_by_a_later_one(running):
    change_behind(running, attempt=2)
    running.priority, version = 5, running.version
    with pytest.raises(StaleJob):
        running.save()

    running.save(update_fields=["queue"])  # nothing to write
    assert running.version == version
    change_behind(running, attempt=1)
    running.save()
    assert row_of(running)["priority"] == 5


def test_a_step_that_was_rolled_back_is_not_built_upon(user):
    job = make_job(user)
    before = stored(job)
    with rolled_back():
        job.start(worker=WORKER, lease=5)
        job.save()
    assert stored(job) == before

    job.complete()
    with pytest.raises(StaleJob):
        job.save()
    assert stored(job) == before


def test_if_the_log_cannot_be_written_neither_is_the_row(running):
    before = stored(running)
    running.complete()
    with log_refused(), pytest.raises(ZeroDivisionError):
        running.save()
    assert stored(running) == before

    running.save()
    assert steps_of(running) == ["queued", "processing", "completed"]


def test_if_the_first_line_of_the_log_cannot_be_written_no_job_is(user):
    job = Job(user=user, job_type="report")
    with log_refused(), pytest.raises(ZeroDivisionError):
        job.save()
    assert not Job.objects.exists()


# -- receipts --------------------------------------------------------------------------------------


def lose_the_reply(job):
    """Write the steps of ``job``; the answer does not come through."""
    with transaction.atomic():
        assert persistence.write(job, "default")


def test_a_write_whose_reply_was_lost_is_acknowledged_by_its_log(running):
    running.complete({"rows": 3})
    lose_the_reply(running)
    before = stored(running)

    with pytest.raises(StaleJob):
        running.save()
    assert persistence.acknowledge(running, "default")

    running.save()
    assert stored(running) == before
    assert running.version == before[0]["version"]


def test_somebody_elses_write_is_not_acknowledged(running):
    twin = Job.objects.get(pk=running.pk)
    twin.complete()
    twin.save()
    running.complete()
    with pytest.raises(StaleJob):
        running.save()
    assert not persistence.acknowledge(running, "default")


def test_a_write_is_acknowledged_only_if_all_its_log_is_there(user):
    job = make_job(user)
    job.start(worker=WORKER, lease=5)
    job.complete()
    first, last = job._unsaved_log
    first.save()
    assert not persistence.acknowledge(job, "default")
    last.save()
    assert persistence.acknowledge(job, "default")


def test_without_a_step_there_is_nothing_to_acknowledge(running):
    assert not persistence.acknowledge(running, "default")


# -- what the world hears --------------------------------------------------------------------------


def test_every_step_is_told_after_commit(user, heard, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        job = make_job(user)
        job.start(worker=WORKER, lease=5)
        job.save()
        job.complete()
        job.save()
        assert heard == []
    assert heard == ["queued", "processing", "completed", "finished"]


def test_the_steps_of_jobs_made_in_bulk_are_told_too(
    user, heard, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        Job.objects.bulk_create([Job(user=user, job_type="report") for _ in range(3)])
    assert heard == ["queued"] * 3


def test_what_was_rolled_back_is_not_told(running, heard, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True), rolled_back():
        running.complete()
        running.save()
    assert heard == []


def test_what_was_refused_is_not_told(running, heard, django_capture_on_commit_callbacks):
    change_behind(running, attempt=2)
    running.complete()
    with django_capture_on_commit_callbacks(execute=True), pytest.raises(StaleJob):
        running.save()
    assert heard == []


def test_an_acknowledged_step_is_told_once(running, heard, django_capture_on_commit_callbacks):
    running.complete()
    with django_capture_on_commit_callbacks(execute=True):
        lose_the_reply(running)
        persistence.acknowledge(running, "default")
        running.save()
    assert heard == ["completed", "finished"]


def test_a_receiver_that_raises_harms_nobody(running, heard, django_capture_on_commit_callbacks):
    def broken(**kwargs):
        raise RuntimeError("receiver")

    job_transitioned.connect(broken)
    try:
        with django_capture_on_commit_callbacks(execute=True):
            running.complete()
            running.save()
    finally:
        job_transitioned.disconnect(broken)
    assert heard == ["completed", "finished"]
    assert row_of(running)["status"] == "completed"


def test_every_step_is_a_line_in_the_log_of_the_host(
    running, caplog, django_capture_on_commit_callbacks
):
    caplog.set_level(logging.INFO, "django_jobs")
    with django_capture_on_commit_callbacks(execute=True):
        running.fail("No disk.", FailureCode.TIMED_OUT)
        running.save()
    assert [record.getMessage() for record in caplog.records] == [
        f"job {running.pk} ({running.job_type}): processing -> failed, attempt 1, "
        "timed_out: No disk."
    ]
