import datetime as dt

import pytest
from django.db import connection

from django_jobs.exceptions import InvalidStateTransitionError, JobsError
from django_jobs.models import Job, JobTransition, clock, persistence
from django_jobs.states import LIVE_STATES, TERMINAL_STATES, FailureCode, JobStatus
from django_jobs.testing import make_job
from tests.stored import Statements, log_refused, steps_of

pytestmark = pytest.mark.django_db

WORKER = "host/machine/1/2/abcd"
HOUR = dt.timedelta(hours=1)


@pytest.fixture
def one_of_each(user):
    return {status: make_job(user, status) for status in JobStatus}


def postponed(user, delay):
    """Return a job that waits between attempts."""
    job = make_job(user, JobStatus.PROCESSING, worker=WORKER, max_attempts=2)
    job.postpone(delay=delay, code=FailureCode.HANDLER_ERROR, message="")
    job.save()
    return job


def test_the_jobs_of_a_user(user, other_user):
    job, other = make_job(user), make_job(other_user)
    assert list(Job.objects.for_user(user)) == [job]
    assert list(Job.objects.for_user(other_user.pk)) == [other]


def test_live_and_terminal_jobs(one_of_each):
    assert set(Job.objects.live()) == {one_of_each[status] for status in LIVE_STATES}
    assert set(Job.objects.terminal()) == {one_of_each[status] for status in TERMINAL_STATES}


def test_what_no_attempt_is_open_for_waits(user, one_of_each):
    delayed = make_job(user, run_at=clock.now() + HOUR)
    between = postponed(user, 60)
    assert set(Job.objects.waiting()) == {one_of_each[JobStatus.QUEUED], delayed, between}


def test_jobs_are_due_in_the_order_of_claims(user):
    second = make_job(user)
    third = make_job(user)
    first = make_job(user, priority=1)
    last = make_job(user, priority=-1)
    assert list(Job.objects.due()) == [first, second, third, last]


def test_jobs_with_the_same_moment_are_due_in_the_order_of_their_making(user):
    moment = clock.now() - HOUR
    jobs = [make_job(user, due_at=moment) for _ in range(5)]
    assert list(Job.objects.due()) == jobs


def test_what_has_not_come_yet_is_not_due(user):
    job = make_job(user, run_at=clock.now() + HOUR)
    between = postponed(user, 60)
    assert not Job.objects.due().exists()
    assert set(Job.objects.due(clock.now() + 2 * HOUR)) == {job, between}


def test_what_runs_or_is_over_is_not_due(one_of_each):
    assert list(Job.objects.due(clock.now() + HOUR)) == [one_of_each[JobStatus.QUEUED]]


def test_a_lapsed_lease_is_overdue(user):
    job = make_job(user, JobStatus.PROCESSING, worker=WORKER)
    assert not Job.objects.overdue().exists()
    assert list(Job.objects.overdue(job.due_at)) == [job]


def test_a_job_that_waited_too_long_is_overdue(user):
    job = make_job(user)
    between = postponed(user, 60)
    assert not Job.objects.overdue(job.due_at + HOUR).exists()
    assert list(Job.objects.overdue(job.start_deadline_at)) == [job]
    assert set(Job.objects.overdue(between.start_deadline_at)) == {job, between}


def test_what_is_over_is_never_overdue(user):
    for status in TERMINAL_STATES:
        make_job(user, status)
    assert not Job.objects.overdue(clock.now() + 1000 * HOUR).exists()


def test_adjectives_can_be_chained_and_are_there_on_the_users_jobs(user, other_user):
    make_job(other_user)
    job = make_job(user, queue="slow")
    assert list(user.django_jobs.live().filter(queue="slow").due()) == [job]


# -- the guard of a write --------------------------------------------------------------------------


def test_a_row_is_unchanged_while_all_is_as_expected(user):
    job = make_job(user)
    unchanged = Job.objects.unchanged(job.pk, status="queued", due_at=job.due_at, worker="")
    assert list(unchanged) == [job]
    assert unchanged.guarded_update(priority=5) == 1
    for expected in ({"status": "processing"}, {"status": "queued", "attempt": 1}):
        assert not Job.objects.unchanged(job.pk, **expected).exists()


@pytest.mark.skipif(connection.vendor != "mysql", reason="about MariaDB's choice of indexes")
@pytest.mark.parametrize("guard", [persistence.FENCE, persistence.DECISION])
def test_a_guarded_row_is_found_by_its_key_alone(user, guard):
    # Found by another index, its locks are taken in another order: a deadlock with other writers.
    job = make_job(user, JobStatus.PROCESSING, worker=WORKER)
    for _ in range(20):
        make_job(user)
    expected = {name: getattr(job, name) for name in guard}
    plan = Job.objects.unchanged(job.pk, **expected).explain()
    assert "PRIMARY" in plan
    assert "django_jobs_claim" not in plan
    assert "django_jobs_status_due" not in plan


# -- many at once ----------------------------------------------------------------------------------


def test_many_jobs_are_created_with_their_log(user):
    jobs = Job.objects.bulk_create(Job(user=user, job_type=f"type {n}") for n in range(3))
    assert [steps_of(job) for job in jobs] == [["queued"]] * 3
    assert list(Job.objects.due()) == jobs
    with pytest.raises(AttributeError):
        jobs[0].status = "completed"
    jobs[0].start()
    jobs[0].save()
    assert steps_of(jobs[0]) == ["queued", "processing"]


def test_a_thousand_jobs_are_created_in_a_few_statements(user):
    jobs = [Job(user=user, job_type="report") for _ in range(1000)]
    with Statements() as statements:
        Job.objects.bulk_create(jobs, batch_size=500)
    assert len(statements.sent) < 60  # SQLite takes a limited number of parameters
    assert Job.objects.count() == JobTransition.objects.count() == 1000


@pytest.mark.parametrize("status", [status for status in JobStatus if status != JobStatus.QUEUED])
def test_many_jobs_are_created_queued_or_not_at_all(user, status):
    jobs = [Job(user=user, job_type="a"), Job(user=user, job_type="b", status=status)]
    with pytest.raises(InvalidStateTransitionError, match=f"from 'new' to '{status}'"):
        Job.objects.bulk_create(jobs)
    assert not Job.objects.exists()
    assert not JobTransition.objects.exists()


def test_many_jobs_are_created_with_their_log_or_not_at_all(user):
    jobs = [Job(user=user, job_type="report") for _ in range(3)]
    with log_refused(), pytest.raises(ZeroDivisionError):
        Job.objects.bulk_create(jobs)
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    "options",
    [
        {"ignore_conflicts": True},
        {"update_conflicts": True, "update_fields": ["status"], "unique_fields": ["id"]},
    ],
    ids=["ignore", "update"],
)
def test_creating_many_jobs_touches_no_existing_row(user, options):
    job = make_job(user, JobStatus.COMPLETED)
    with pytest.raises(JobsError, match="existing rows"):
        Job.objects.bulk_create([Job(pk=job.pk, user=user, job_type="report")], **options)
    assert Job.objects.get().status == "completed"
