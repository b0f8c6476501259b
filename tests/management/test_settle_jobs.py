import datetime as dt

import pytest

from django_jobs.models import Job, clock
from django_jobs.testing import make_job

pytestmark = pytest.mark.django_db

WORKER = "host/machine/1/1/abcd"


@pytest.fixture(autouse=True)
def short_ticks(settings):
    settings.DJANGO_JOBS = {**settings.DJANGO_JOBS, "TICK": 0.05, "LEASE": 1}


def lapsed(user, using="default", **fields):
    job = make_job(user, "processing", worker=WORKER, **fields)
    Job.objects.using(using).filter(pk=job.pk).update(
        due_at=clock.now(using) - dt.timedelta(seconds=1)
    )
    return job


def test_with_nothing_to_do_it_says_so(run, user):
    make_job(user)
    done = run("settle_jobs")
    assert (done.lines, done.code) == (["settled: 0 ended, 0 put back"], 0)


def test_each_job_gets_a_line(run, user):
    ended = lapsed(user, job_type="report")
    again = lapsed(user, job_type="import", max_attempts=2)
    done = run("settle_jobs")
    lost = "The worker that ran attempt 1 was lost: it was not heard of until its lease ended."
    assert done.code == 0
    assert sorted(done.lines[:-1]) == sorted(
        [
            f"{ended.pk} report: failed, worker_lost: {lost}",
            f"{again.pk} import: processing, worker_lost: {lost}",
        ]
    )
    assert done.lines[-1] == "settled: 1 ended, 1 put back"


def test_what_it_has_settled_is_settled(run, user):
    lapsed(user)
    run("settle_jobs")
    assert run("settle_jobs").lines == ["settled: 0 ended, 0 put back"]


@pytest.mark.django_db(databases=["default", "other"])
def test_another_database_can_be_named(run, user, settings):
    job = lapsed(user)
    assert run("settle_jobs", "--database", "other").lines == ["settled: 0 ended, 0 put back"]
    assert len(run("settle_jobs", "--database", "default").lines) == 2
    job.refresh_from_db()
    assert job.status == "failed"


def test_a_database_that_is_not_there_is_refused(run):
    with pytest.raises(Exception, match="invalid choice"):
        run("settle_jobs", "--database", "nowhere")
