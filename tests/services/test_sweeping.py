import datetime as dt
import subprocess
import time
from types import SimpleNamespace

import pytest

from django_jobs.models import Job, clock
from django_jobs.services import cancel_job, identity, sweeping
from django_jobs.services.settling import BATCH
from django_jobs.services.sweeping import settle_all
from django_jobs.testing import make_job
from tests.services.conftest import OUR_WORKER

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def short_ticks(settings):
    settings.DJANGO_JOBS = {**settings.DJANGO_JOBS, "TICK": 0.1, "LEASE": 1}


class Naps(list):
    """How long it slept; ``during`` is called in each sleep."""

    def __call__(self, seconds):
        self.append(seconds)
        self.during()
        time.sleep(seconds)

    def during(self):
        pass


@pytest.fixture
def naps(monkeypatch):
    naps = Naps()
    monkeypatch.setattr(sweeping, "time", SimpleNamespace(sleep=naps))
    return naps


def past(**delta):
    return clock.now() - dt.timedelta(**delta)


def lapsed(user, **fields):
    job = make_job(user, "processing", worker=OUR_WORKER, **fields)
    Job.objects.filter(pk=job.pk).update(due_at=past(seconds=1))
    return job


def never_taken(user):
    job = make_job(user)
    Job.objects.filter(pk=job.pk).update(start_deadline_at=past(seconds=1))
    return job


def settled():
    return [(job.pk, job.status, job.failure_code) for job in settle_all("default")]


def test_nothing_to_do_takes_no_time(user, naps):
    make_job(user)
    make_job(user, "processing", worker=OUR_WORKER)
    make_job(user, "completed")
    assert settled() == []
    assert naps == []


def test_what_waited_too_long_ends_without_a_second_look(user, naps):
    job = never_taken(user)
    assert settled() == [(job.pk, "failed", "unknown_job_type")]
    assert naps == []


def test_a_lapsed_lease_ends_after_a_second_look(user, naps):
    job = lapsed(user)
    assert settled() == [(job.pk, "failed", "worker_lost")]
    assert len(naps) == 1
    assert naps[0] > 0.2 - 0.05


def test_a_lease_that_is_renewed_between_the_two_looks_stays(user, naps):
    job = lapsed(user)

    def renew():
        Job.objects.filter(pk=job.pk).update(due_at=clock.now() + dt.timedelta(seconds=30))

    naps.during = renew
    assert settled() == []
    job.refresh_from_db()
    assert job.status == "processing"


def test_an_attempt_that_may_be_repeated_is_put_back(user):
    job = lapsed(user, max_attempts=2)
    [found] = settle_all("default")
    assert (found.pk, found.status, found.worker) == (job.pk, "processing", "")


def test_what_was_cancelled_between_attempts_ends(user, postponed_job):
    Job.objects.filter(pk=postponed_job.pk).update(cancel_requested_at=clock.now())
    assert settled() == [(postponed_job.pk, "failed", "cancelled")]


def test_a_lost_job_that_was_to_be_cancelled_ends_cancelled(user):
    job = make_job(user, "processing", worker=OUR_WORKER, max_attempts=2)
    cancel_job(job.pk, actor=user)
    Job.objects.filter(pk=job.pk).update(due_at=past(seconds=1))
    assert settled() == [(job.pk, "failed", "cancelled")]


def test_a_worker_of_this_machine_that_is_gone_needs_no_second_look(user, naps):
    if not identity.machine():
        pytest.skip("this system does not name its boots")
    with subprocess.Popen(["true"]) as process:
        pass
    worker = f"{identity.machine_prefix()}{process.pid}/1/abcd"
    job = make_job(user, "processing", worker=worker)
    assert settled() == [(job.pk, "failed", "worker_lost")]
    assert naps == []


def test_there_is_no_limit_to_how_many(user, naps):
    jobs = [lapsed(user) for _ in range(BATCH + 5)]
    ended = settled()
    assert sorted(pk for pk, _, _ in ended) == sorted(job.pk for job in jobs)


def test_a_job_that_ended_is_not_settled_twice(user):
    never_taken(user)
    assert len(settled()) == 1
    assert settled() == []
