import datetime as dt

import pytest

from django_jobs.models import Job, clock
from django_jobs.services.health import SHOWN, Health, check_health
from django_jobs.testing import make_job

pytestmark = pytest.mark.django_db

WORKER = "host/machine/1/1/abcd"


def ago(seconds):
    return clock.now() - dt.timedelta(seconds=seconds)


def waiting(user, seconds, **fields):
    """A job that has been due for so many seconds."""
    return make_job(user, due_at=ago(seconds), **fields)


def lapsed(user):
    """A running job whose lease has just ended."""
    job = make_job(user, "processing", worker=WORKER)
    Job.objects.filter(pk=job.pk).update(due_at=ago(1))
    return job


def health(**fields):
    sound = {"due": 0, "running": 0, "overdue": 0, "overdue_ids": (), "oldest_wait": 0, "late": 60}
    return Health(**{**sound, **fields})


def test_an_empty_table_is_well():
    assert check_health() == health()
    assert check_health().is_well
    assert check_health().problems == ()


def test_what_is_over_and_what_is_delayed_does_not_count(user):
    for status in ("completed", "partial", "failed"):
        make_job(user, status)
    make_job(user, run_at=ago(-3600))
    assert check_health() == health()


def test_what_is_due_and_what_runs_is_counted(user):
    waiting(user, 5)
    waiting(user, 2)
    make_job(user, "processing", worker=WORKER)
    found = check_health()
    assert (found.due, found.running, found.overdue) == (2, 1, 0)
    assert 5 <= found.oldest_wait < 15
    assert found.is_well


def test_a_job_between_two_attempts_does_not_run(user):
    job = make_job(user, "processing", worker=WORKER, max_attempts=2)
    job.postpone(delay=60, code="handler_error", message="")
    job.save()
    assert check_health() == health()


def test_due_work_that_waits_too_long_is_a_problem(user):
    waiting(user, 70, priority=-5)  # the oldest, though not the next one
    waiting(user, 5)
    found = check_health()
    assert not found.is_consumed
    assert not found.is_well
    assert found.problems == ("Due work is not taken up: the oldest of 2 jobs has waited 70 s.",)


def test_how_long_is_too_long_can_be_said(user):
    waiting(user, 70)
    assert check_health(late=100).is_well
    assert not check_health(late=50).is_well


def test_a_lapsed_lease_is_a_problem(user):
    job = lapsed(user)
    found = check_health()
    assert (found.overdue, found.overdue_ids, found.running) == (1, (job.pk,), 1)
    assert not found.is_well
    assert found.problems[0].startswith("1 job should have been ended or put back")


def test_a_start_deadline_that_has_passed_is_a_problem(user):
    job = make_job(user)
    Job.objects.filter(pk=job.pk).update(start_deadline_at=ago(1))
    assert check_health().overdue_ids == (job.pk,)


def test_the_oldest_of_many_overdue_jobs_are_named(user):
    jobs = [lapsed(user) for _ in range(SHOWN + 3)]
    found = check_health()
    assert found.overdue == SHOWN + 3
    assert found.overdue_ids == tuple(job.pk for job in jobs[:SHOWN])


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(61.4, "61 s"), (150, "2 min"), (3700, "62 min"), (7200, "2 h"), (12_000, "3 h")],
)
def test_waits_are_said_in_round_numbers(seconds, words):
    [problem] = health(due=1, oldest_wait=seconds).problems
    assert problem.endswith(f"has waited {words}.")


def test_it_takes_few_statements(user, django_assert_max_num_queries):
    clock.now()
    with django_assert_max_num_queries(6):
        check_health()


@pytest.mark.django_db(databases=["default", "other"])
def test_any_database_can_be_asked(user):
    waiting(user, 5)
    assert check_health("default").due == 1
    assert check_health("other").due == 0
