import datetime as dt

import pytest

from django_jobs.models import Job, clock
from django_jobs.services import create_job
from django_jobs.states import TERMINAL_STATES, FailureCode, JobStatus
from django_jobs.testing import make_job, run_due_jobs
from tests.stored import row_of, steps_of

pytestmark = pytest.mark.django_db

WORKER = "host/machine/1/2/abcd"
PATHS = {
    JobStatus.QUEUED: ["queued"],
    JobStatus.PROCESSING: ["queued", "processing"],
    JobStatus.COMPLETED: ["queued", "processing", "completed"],
    JobStatus.PARTIAL: ["queued", "processing", "partial"],
    JobStatus.FAILED: ["queued", "processing", "failed"],
}


@pytest.mark.parametrize("status", JobStatus)
def test_a_job_is_made_in_any_state_by_legal_steps(user, status):
    job = make_job(user, status)
    assert row_of(job)["status"] == job.status == status
    assert steps_of(job) == PATHS[status]
    assert bool(job.completed_at) is (status in TERMINAL_STATES)


@pytest.mark.parametrize("status", JobStatus.values)
def test_a_state_can_be_given_as_text(user, status):
    assert make_job(user, status).status == status


@pytest.mark.parametrize("status", JobStatus)
def test_a_made_job_has_the_fields_that_are_given(user, status):
    job = make_job(user, status, job_type="report", parameters={"a": 1}, priority=5, queue="slow")
    row = row_of(job)
    assert (row["job_type"], row["parameters"]) == ("report", {"a": 1})
    assert (row["priority"], row["queue"], row["user_id"]) == (5, "slow", user.pk)


def test_a_made_job_ends_as_told(user):
    completed = make_job(user, JobStatus.COMPLETED, result={"rows": 3})
    assert row_of(completed)["result"] == {"rows": 3}
    partial = make_job(user, JobStatus.PARTIAL, result=[1], error_message="One row was bad.")
    row = row_of(partial)
    assert (row["result"], row["error_message"]) == ([1], "One row was bad.")
    failed = make_job(
        user,
        JobStatus.FAILED,
        error_message="Too late.",
        failure_code=FailureCode.TIMED_OUT,
        progress=30,
    )
    row = row_of(failed)
    assert (row["error_message"], row["failure_code"]) == ("Too late.", "timed_out")
    assert row["progress"] == 30


def test_a_made_job_is_run_by_whom_is_told(user):
    ours = make_job(user, JobStatus.PROCESSING, worker=WORKER, progress=40, max_attempts=3)
    row = row_of(ours)
    assert (row["worker"], row["progress"], row["max_attempts"]) == (WORKER, 40, 3)
    assert row["due_at"] > row["started_at"]
    outside = make_job(user, JobStatus.PROCESSING)
    assert outside.worker.startswith("external:")


def test_made_jobs_have_types_of_their_own(user):
    assert make_job(user).job_type != make_job(user).job_type


def test_due_jobs_are_run_in_the_order_of_claims(user, handler):
    job_type = handler(lambda job: {"n": job.parameters["n"]})
    for number, priority in enumerate([0, 5, 0]):
        make_job(user, job_type=job_type, parameters={"n": number}, priority=priority)
    done = run_due_jobs()
    assert [job.result["n"] for job in done] == [1, 0, 2]
    assert {job.status for job in done} == {"completed"}


def test_jobs_that_a_job_orders_are_run_too(user, handler):
    inner = handler(lambda job: {"inner": True})
    outer = handler(lambda job: {"ordered": str(create_job(job.user, inner).pk)})
    make_job(user, job_type=outer)
    assert [job.job_type for job in run_due_jobs()] == [outer, inner]


def test_as_many_jobs_are_run_as_told(user, handler):
    job_type = handler(lambda job: None)
    for _ in range(3):
        make_job(user, job_type=job_type)
    assert len(run_due_jobs(limit=2)) == 2
    assert Job.objects.live().count() == 1


def test_what_has_no_handler_here_is_left_alone(user, external_type):
    jobs = [make_job(user, job_type=external_type), make_job(user, job_type="unknown")]
    run_due_jobs()
    assert {row_of(job)["status"] for job in jobs} == {"queued"}


def test_what_is_not_due_is_left_alone(user, handler):
    tomorrow = clock.now() + dt.timedelta(days=1)
    job = make_job(user, job_type=handler(lambda job: None), run_at=tomorrow)
    assert run_due_jobs() == []
    assert row_of(job)["status"] == "queued"
