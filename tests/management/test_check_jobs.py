import datetime as dt
import json

import pytest

from django_jobs.models import Job, clock
from django_jobs.services.health import SHOWN
from django_jobs.testing import make_job

pytestmark = pytest.mark.django_db

WORKER = "host/machine/1/1/abcd"


def waiting(user, seconds):
    return make_job(user, due_at=clock.now() - dt.timedelta(seconds=seconds))


def lapsed(user):
    job = make_job(user, "processing", worker=WORKER)
    Job.objects.filter(pk=job.pk).update(due_at=clock.now() - dt.timedelta(seconds=1))
    return job


def test_all_is_well(run, user):
    make_job(user, "processing", worker=WORKER)
    make_job(user, "completed")
    done = run("check_jobs")
    assert done.code == 0
    assert done.lines == ["due:     0", "running: 1", "overdue: 0", "All is well."]


def test_overdue_jobs_are_named(run, user):
    job = lapsed(user)
    done = run("check_jobs")
    assert done.code == 1
    assert f"  {job.pk}" in done.lines
    assert "All is well." not in done.text
    assert "1 job should have been ended or put back by now" in done.lines[-1]


def test_of_many_overdue_jobs_some_are_named(run, user):
    for _ in range(SHOWN + 2):
        lapsed(user)
    done = run("check_jobs")
    assert f"overdue: {SHOWN + 2}" in done.lines
    assert "  and 2 more" in done.lines


def test_due_work_that_nobody_takes(run, user):
    waiting(user, 90)
    done = run("check_jobs")
    assert done.code == 1
    assert done.lines[0].startswith("due:     1 (the oldest for 9")
    assert done.lines[-1].startswith("Due work is not taken up")


def test_how_long_work_may_wait_can_be_said(run, user):
    waiting(user, 90)
    assert run("check_jobs", "--late", "120").code == 0
    assert run("check_jobs", "--late", "0.5").code == 1


def test_as_json_when_well(run):
    done = run("check_jobs", "--json")
    assert done.code == 0
    assert json.loads(done.text) == {
        "is_well": True,
        "due": 0,
        "running": 0,
        "overdue": 0,
        "overdue_ids": [],
        "oldest_wait": 0.0,
        "late": 60.0,
        "is_consumed": True,
        "problems": [],
    }


def test_as_json_when_not_well(run, user):
    job = lapsed(user)
    waiting(user, 90)
    done = run("check_jobs", "--json")
    assert done.code == 1
    assert len(done.lines) == 1
    found = json.loads(done.text)
    assert found["overdue_ids"] == [str(job.pk)]
    assert (found["is_well"], found["is_consumed"], found["due"]) == (False, False, 1)
    assert 90 <= found["oldest_wait"] < 100
    assert len(found["problems"]) == 2


@pytest.mark.django_db(databases=["default", "other"])
def test_another_database_can_be_named(run, user):
    lapsed(user)
    assert run("check_jobs", "--database", "other").code == 0
    assert run("check_jobs", "--database", "default").code == 1
