"""Deadlines, cancelling and retries in real workers."""

import datetime as dt
from itertools import pairwise

import pytest

from django_jobs.models import Job, clock
from django_jobs.services import cancel_job, create_job
from tests.clusters.processes import Cluster, entries, wait_for
from tests.clusters.test_lost_workers import ended, worker_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("job_type", ["slow-python", "slow-c", "slow-sql", "stubborn"])
def test_a_handler_past_its_limit_ends_timed_out_and_the_next_job_runs(
    job_type, user, tmp_path, notes
):
    with Cluster(tmp_path, workers=1) as cluster:
        job = create_job(user, job_type, {"entries": str(notes)})
        late = wait_for(lambda: ended(job), 15, "the verdict")
        assert late.failure_code == "timed_out", (late.error_message, cluster.output())
        assert late.error_message == "The job took longer than its limit of 1 s."
        took = (late.completed_at - late.started_at).total_seconds()
        assert 1 <= took < 1 + 1 + 2  # limit, grace, and a beat to spare
        following = create_job(user, "note", {"entries": str(notes)})
        assert wait_for(lambda: ended(following)).status == "completed"
    assert len([line for line in entries(notes) if line[0] == str(job.pk)]) == 1


def test_a_running_job_is_cancelled_with_the_reason_given(user, tmp_path, notes, waiting):
    with Cluster(tmp_path):
        job = create_job(user, "wait", waiting)
        worker_of(job, notes)
        asked = cancel_job(job.pk, actor=user, reason="not needed any more")
        assert asked.status == "processing"
        done = wait_for(lambda: ended(job), 10)
        assert (done.status, done.failure_code) == ("failed", "cancelled")
        assert done.error_message == "The job was cancelled: not needed any more"
        assert done.cancel_requested_by == user


def test_a_stubborn_job_is_cancelled_by_force(user, tmp_path, notes):
    with Cluster(tmp_path, workers=1):
        job = create_job(user, "stubborn", {"entries": str(notes)})
        worker_of(job, notes)
        cancel_job(job.pk, actor=user)
        done = wait_for(lambda: ended(job), 10)
        assert done.failure_code in {"cancelled", "timed_out"}
        following = create_job(user, "note", {"entries": str(notes)})
        assert wait_for(lambda: ended(following)).status == "completed"


def test_a_stubborn_job_whose_row_is_gone_is_ended_with_its_process(user, tmp_path, notes):
    with Cluster(tmp_path, workers=1):
        job = create_job(user, "stubborn-for-ever", {"entries": str(notes)})
        worker_of(job, notes)
        Job.objects.filter(pk=job.pk).delete()
        following = create_job(user, "note", {"entries": str(notes)})
        assert wait_for(lambda: ended(following), 15).status == "completed"
    assert not Job.objects.filter(pk=job.pk).exists()


def test_a_stubborn_job_does_not_hold_up_a_stop(user, tmp_path, notes):
    with Cluster(tmp_path, workers=1, jobs={"SHUTDOWN_GRACE": 0.5}) as cluster:
        job = create_job(user, "stubborn-for-ever", {"entries": str(notes)})
        worker_of(job, notes)
        cluster.process.terminate()
        assert cluster.process.wait(timeout=15) == 0
    assert ended(job).failure_code == "shutdown"


def test_a_queued_job_is_cancelled_at_once(user):
    job = cancel_job(create_job(user, "noop").pk, actor=user)
    assert (job.status, job.failure_code, job.attempt) == ("failed", "cancelled", 0)


def test_a_job_between_two_attempts_is_cancelled_at_once(user, tmp_path, notes):
    with Cluster(tmp_path, jobs={"TICK": 5, "LEASE": 30}):  # at least 5 s between attempts
        job = create_job(user, "flaky", {"entries": str(notes)})
        wait_for(lambda: entries(notes) and Job.objects.get(pk=job.pk).is_waiting)
        done = cancel_job(job.pk, actor=user)
        assert (done.status, done.failure_code, done.attempt) == ("failed", "cancelled", 1)
    assert len(entries(notes)) == 1


def test_a_failing_job_is_repeated_with_a_growing_delay(user, tmp_path, notes):
    with Cluster(tmp_path):
        job = create_job(user, "flaky", {"entries": str(notes)})
        done = wait_for(lambda: ended(job), 20)
        assert (done.status, done.result, done.attempt) == ("completed", {"attempt": 3}, 3)
    lines = entries(notes)
    assert [line[1] for line in lines] == [1, 2, 3]
    gaps = [later[3] - earlier[3] for earlier, later in pairwise(lines)]
    assert min(gaps) >= 0.5  # TICK, the least backoff
    codes = list(job.transitions.order_by("id").values_list("code", flat=True))
    assert codes == ["", "", "handler_error", "", "handler_error", "", ""]


def test_attempts_run_out(user, tmp_path, notes):
    with Cluster(tmp_path):
        job = create_job(user, "flaky", {"entries": str(notes), "succeeds_at": 9})
        done = wait_for(lambda: ended(job), 20)
        assert (done.status, done.failure_code) == ("failed", "handler_error")
        assert done.error_message == "ValueError: attempt 3 does not work"


def test_a_job_does_not_start_before_its_time(user, tmp_path, notes):
    at = clock.now() + dt.timedelta(seconds=2)
    with Cluster(tmp_path):
        job = create_job(user, "note", {"entries": str(notes)}, run_at=at)
        done = wait_for(lambda: ended(job))
        assert at <= done.started_at < at + dt.timedelta(seconds=2)


def test_a_job_that_waited_too_long_is_not_started(user, tmp_path, notes, settings):
    settings.DJANGO_JOBS = {**settings.DJANGO_JOBS, "DEFAULT_QUEUE_TIMEOUT": 0.05}
    job = create_job(user, "note", {"entries": str(notes)})
    wait_for(lambda: clock.now() > job.start_deadline_at)
    with Cluster(tmp_path):
        late = wait_for(lambda: ended(job))
        assert (late.status, late.failure_code) == ("failed", "never_started")
        assert (late.attempt, late.started_at) == (0, None)
    assert entries(notes) == []


def test_a_type_that_no_worker_knows_waits_until_its_deadline(user, tmp_path, handler, settings):
    settings.DJANGO_JOBS = {**settings.DJANGO_JOBS, "DEFAULT_QUEUE_TIMEOUT": 2}
    name = handler(lambda job: None, name="known-here-only")
    with Cluster(tmp_path):
        job = create_job(user, name)
        late = wait_for(lambda: ended(job))
        assert (late.status, late.failure_code) == ("failed", "unknown_job_type")
        assert "known-here-only" in late.error_message
