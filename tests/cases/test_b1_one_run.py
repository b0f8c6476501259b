"""Group B, one run: no body is entered twice, no end is followed by another."""

import os
import signal
import time

import psutil
import pytest
from django.db import transaction
from django.db.models.signals import post_save
from django_q.models import OrmQ
from django_q.tasks import async_task

from django_jobs.exceptions import StaleJob
from django_jobs.execution.immediate import run_job
from django_jobs.models import Job, clock
from django_jobs.services import create_job
from django_jobs.services.sweeping import settle_all
from django_jobs.signals import job_transitioned
from django_jobs.testing import run_due_jobs
from tests.cases.books import ended
from tests.clusters.processes import entries, freeze, wait_for
from tests.clusters.test_lost_workers import worker_of
from tests.stored import stored

pytestmark = pytest.mark.django_db(transaction=True)

DRAIN = "django_jobs.execution.drain.drain"


def test_b01_a_job_that_runs_longer_than_the_retry_interval_runs_once(
    cluster, user, notes, waiting, gate
):
    # retry and timeout are django-q2's, for its own tasks; a drain is never handed out again
    with cluster(workers=3, cluster={"retry": 2, "timeout": 60}) as running:
        job = create_job(user, "wait", waiting)
        worker_of(job, notes)
        before = len(stored(job)[1])
        _watch(job, 4.5)  # two retry intervals
        gate.touch()
        assert wait_for(lambda: ended(job)).status == "completed"
        assert len(stored(job)[1]) == before + 1
        assert not OrmQ.objects.exists()
    assert len(entries(notes)) == 1
    assert "Retry and timeout are misconfigured" in running.output()  # django-q2's own warning


def test_b03_a_job_that_has_ended_is_not_run_again(cluster, user, notes):
    parameters = {"entries": str(notes)}
    names = {"note": "completed", "partial": "partial", "tells-a-model": "failed"}
    stale = {name: Job.objects.get(pk=create_job(user, name, parameters).pk) for name in names}
    with cluster(workers=1):
        for name, job in stale.items():
            assert wait_for(lambda job=job: ended(job)).status == names[name]
        before = {name: stored(job) for name, job in stale.items()}
        for job in stale.values():
            for _ in range(3):
                run_job(job.pk, "default")
                async_task(DRAIN, time.monotonic())  # what a worker is told, told again
            job.start(worker="host/machine/1/2/abcd", lease=30)  # read before it was claimed
            with pytest.raises(StaleJob):
                job.save()
        assert run_due_jobs() == []
        wait_for(lambda: not OrmQ.objects.exists(), what="the drains are done")
    assert {name: stored(job) for name, job in stale.items()} == before
    assert len(entries(notes)) == 3


@pytest.mark.parametrize("job_type", ["wait", "waits-silently"])
def test_b04_a_live_job_outlasts_its_lease_whether_it_reports_or_not(
    cluster, user, notes, waiting, gate, job_type
):
    with cluster(workers=2, jobs={"TICK": 0.3, "LEASE": 2}):  # T_stale is the lease
        job = create_job(user, job_type, waiting)
        worker_of(job, notes)
        _watch(job, 5, sweep=True)
        gate.touch()
        assert wait_for(lambda: ended(job)).status == "completed"
    assert len(entries(notes)) == 1


def test_b06_a_frozen_worker_is_written_off_and_changes_nothing_when_it_wakes(
    cluster, user, notes, waiting, gate, told
):
    with cluster(jobs={"TICK": 0.5, "LEASE": 3}) as running:
        job = create_job(user, "outlives-its-row", {**waiting, "told": str(told)})
        pid = worker_of(job, notes)
        freeze(pid)
        verdict = wait_for(lambda: ended(job), 20, "the verdict")
        assert (verdict.status, verdict.failure_code) == ("failed", "worker_lost")
        before = stored(job)
        os.kill(pid, signal.SIGCONT)
        wait_for(lambda: "attempt 1 is over" in running.output(), what="its keeper has noticed")
        gate.touch()
        _wait_until_it_works_again(pid, user, notes)
        assert stored(job) == before
        assert not job.assets.exists()
        assert psutil.pid_exists(pid), running.output()  # it lives on
    assert told.read_text().splitlines() == ["file LeaseLost", "link LeaseLost", "progress taken"]


def test_b07_a_job_that_is_done_before_its_order_returns_stays_done(cluster, user, notes):
    done = []

    def be_slow(instance, **_):
        time.sleep(1)  # within the transaction: nobody can see the job

    def see_it_done(job, transition, **_):
        if transition.to_status == "queued" and job.job_type == "note":
            done.append(wait_for(lambda: ended(job)))

    with cluster(workers=1):
        post_save.connect(be_slow, sender=Job)
        job_transitioned.connect(see_it_done)  # after the commit, before the order returns
        try:
            job = create_job(user, "note", {"entries": str(notes)})
        finally:
            post_save.disconnect(be_slow, sender=Job)
            job_transitioned.disconnect(see_it_done)
        assert [end.status for end in done] == ["completed"]
        assert job.status == "queued"  # as it was ordered
        before = stored(job)
        job.save()  # nothing of it has changed: nothing is written
        assert stored(job) == before
        job.priority = 5
        with pytest.raises(StaleJob):
            job.save()
        assert stored(job) == before
    assert len(entries(notes)) == 1


def test_b09_an_order_that_is_rolled_back_leaves_nothing(cluster, user, notes):
    parameters = {"entries": str(notes)}
    with cluster() as running:
        with pytest.raises(ZeroDivisionError):
            _order_and_fail(user, parameters)
        with transaction.atomic():
            kept = create_job(user, "note", parameters)
            with pytest.raises(ZeroDivisionError):
                _order_and_fail(user, parameters)
        wait_for(lambda: ended(kept))
    assert not OrmQ.objects.exists()
    assert set(Job.objects.filter(job_type="note")) == {kept}
    assert [line[0] for line in entries(notes)] == [str(kept.pk)]
    for word in ("Traceback", "ERROR", "CRITICAL"):
        assert word not in running.output()


@transaction.atomic
def _order_and_fail(user, parameters):
    create_job(user, "note", parameters)
    raise ZeroDivisionError


def _watch(job, seconds, *, sweep=False):
    """See the job in its first attempt all the while, one sweep a second if wanted."""
    end = time.monotonic() + seconds
    next_sweep = 0.0
    while time.monotonic() < end:
        if sweep and time.monotonic() >= next_sweep:
            assert list(settle_all(clock.alias_for_write())) == []
            next_sweep = time.monotonic() + 1
        fresh = Job.objects.get(pk=job.pk)
        assert (fresh.status, fresh.attempt) == ("processing", 1), fresh.error_message
        time.sleep(0.1)


def _wait_until_it_works_again(pid, user, notes):
    """Order jobs until one of them ran in the process ``pid``."""

    def has_run_one():
        job = create_job(user, "note", {"entries": str(notes)})
        wait_for(lambda: ended(job))
        return pid in {line[2] for line in entries(notes)[1:]}

    wait_for(has_run_one, what="the worker runs jobs again")
