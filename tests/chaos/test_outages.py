"""Outages of the database, at the worst moments; clocks that disagree."""

import time

import psutil
import pytest
from django.db import OperationalError, connection

from django_jobs.models import Job
from django_jobs.services import create_job, create_jobs
from tests.cases.books import ended
from tests.cases.locks import log_locked
from tests.cases.proxy import Proxy
from tests.chaos.strikes import (
    clock_shifted,
    database_in,
    fill,
    kill_sessions,
    only_on,
    restart,
    small_disk,
)
from tests.clusters.processes import entries, wait_for
from tests.clusters.test_lost_workers import worker_of

pytestmark = pytest.mark.django_db(transaction=True)
OUTAGE = 10  # seconds; the lease of these clusters is 6
OFF = 20  # seconds by which clocks differ


@pytest.fixture
def proxy():
    between = Proxy()
    yield between
    between.cut()


def runs(job, notes):
    """How often the body of ``job`` was entered."""
    return [line[0] for line in entries(notes)].count(str(job.pk))


def order_without_end(user, parameters):
    """What is free within a database's file is used before it grows."""
    while True:
        create_job(user, "note", parameters)


@only_on("postgres", "mariadb")
@pytest.mark.parametrize("crashes", [False, pytest.param(True, marks=pytest.mark.smoke)])
def test_a_restart_of_the_server_costs_no_job(crashes, server, cluster, user, notes, waiting, gate):
    with cluster() as running:
        held = create_job(user, "wait", waiting)
        worker_of(held, notes)
        queued = create_jobs(user, "note", [{"entries": str(notes)}] * 20)
        restart(server, crashes=crashes)
        later = create_job(user, "note", {"entries": str(notes)})
        for job in (*queued, later):
            assert wait_for(lambda job=job: ended(job)).status == "completed", running.output()
        gate.touch()
        done = wait_for(lambda: ended(held))
        assert (done.status, done.result) == ("completed", {"waited": True}), running.output()
    assert {runs(job, notes) for job in (held, later, *queued)} == {1}


@only_on("postgres", "mariadb")
def test_an_outage_longer_than_the_lease_ends_no_job_that_runs(
    proxy, cluster, user, notes, waiting, gate
):
    """A last attempt goes on; one that another may follow is ended before that begins."""
    with cluster(**proxy.environment) as running:
        once, twice = (create_job(user, name, waiting) for name in ("wait", "wait-again"))
        for job in (once, twice):
            worker_of(job, notes)
        proxy.cut()
        waits = create_job(user, "note", {"entries": str(notes)})
        time.sleep(OUTAGE)
        proxy.mend()
        gate.touch()
        for job in (once, twice, waits):
            assert wait_for(lambda job=job: ended(job)).status == "completed", running.output()
    assert ended(once).attempt == 1
    assert [runs(job, notes) for job in (once, waits)] == [1, 1]
    assert runs(twice, notes) == ended(twice).attempt == 2


@only_on("postgres", "mariadb")
@pytest.mark.smoke
def test_a_session_that_is_killed_while_it_writes_the_outcome_costs_no_outcome(
    server, cluster, user, notes, waiting, gate
):
    with cluster(workers=1) as running:
        job = create_job(user, "waits-silently", waiting)
        pid = worker_of(job, notes)
        with log_locked() as is_waited_for:
            gate.touch()
            wait_for(is_waited_for, what="the outcome is being written")
            assert kill_sessions(server, only_waiting=True) >= 1
        done = wait_for(lambda: ended(job))
        assert (done.status, done.result) == ("completed", {"ok": 1}), running.output()
        assert "its outcome" in running.output()
        following = create_job(user, "note", {"entries": str(notes)})
        wait_for(lambda: ended(following))
    assert [line[2] for line in entries(notes)] == [pid, pid]  # by the same worker


@only_on("postgres", "mariadb")
@pytest.mark.smoke
def test_a_third_of_all_replies_to_commits_is_lost_and_no_job(cluster, user, notes):
    proxy = Proxy(loses=3)
    try:
        with cluster(**proxy.environment) as running:
            jobs = create_jobs(user, "note", [{"entries": str(notes)}] * 60)
            for job in jobs:
                done = wait_for(lambda job=job: ended(job), 90)
                assert (done.status, done.attempt) == ("completed", 1), running.output()
            assert proxy.lost >= 20
    finally:
        proxy.cut()
    assert sorted(line[0] for line in entries(notes)) == sorted(str(job.pk) for job in jobs)


@only_on("postgres", "mariadb")
def test_all_sessions_are_killed_again_and_again(server, cluster, user, notes):
    with cluster() as running:
        jobs = create_jobs(user, "orm-work", [{"entries": str(notes)}] * 100)
        for count in (10, 40, 70):
            wait_for(lambda count=count: len(entries(notes)) >= count)
            connection.close()
            assert kill_sessions(server) >= 3
        for job in jobs:
            end = wait_for(lambda job=job: ended(job), 60)
            # a handler may have been in the middle of its own queries
            assert end.status == "completed" or "Error" in end.error_message, running.output()
    assert sum(ended(job).status == "failed" for job in jobs) <= 3 * 2
    assert {runs(job, notes) for job in jobs} == {1}


@only_on("sqlite")
@pytest.mark.smoke
def test_a_full_disk_loses_nothing(cluster, user, notes, waiting, gate):
    with small_disk(16) as folder, database_in(folder):
        with cluster() as running:
            job = create_job(user, "wait", waiting)
            worker_of(job, notes)
            before = Job.objects.count()
            filler = fill(folder)
            with pytest.raises(OperationalError, match="full"):
                order_without_end(user, {"entries": str(notes)})
            ordered = Job.objects.count() - before
            gate.touch()
            wait_for(lambda: "its outcome" in running.output(), what="the outcome waits")
            filler.unlink()
            done = wait_for(lambda: ended(job))
            assert (done.status, done.result) == ("completed", {"waited": True}), running.output()
            wait_for(lambda: not Job.objects.live().exists())
            assert Job.objects.filter(status="completed").count() == ordered + 1
        Job.objects.all().delete()  # no traces for the books of the usual database


@only_on("postgres", "mariadb")
@pytest.mark.parametrize("seconds", [-OFF, pytest.param(OFF, marks=pytest.mark.smoke)])
def test_a_worker_whose_clock_is_off_works_as_others_do(seconds, cluster, user, notes, waiting):
    with cluster(**clock_shifted(seconds)) as running:
        lost, again = (create_job(user, name, waiting) for name in ("wait", "wait-again"))
        for job in (lost, again):
            worker_of(job, notes)
        offs = [at - time.time() for *_, at in entries(notes)]
        assert all(abs(off - seconds) < 5 for off in offs), "the clock was not shifted"
        queued = create_jobs(user, "note", [{"entries": str(notes)}] * 10)
        time.sleep(7)  # longer than the lease: it must be renewed by the database's clock
        assert not ended(lost) and not ended(again)
        for pid in running.worker_pids():
            psutil.Process(pid).kill()
        assert wait_for(lambda: ended(lost)).failure_code == "worker_lost"
        assert wait_for(lambda: ended(again)).attempt == 2
        for job in queued:
            done = wait_for(lambda job=job: ended(job))
            assert done.status == "completed"
            assert abs(done.completed_at.timestamp() - time.time()) < 60 - OFF
    assert {runs(job, notes) for job in (lost, *queued)} == {1}


@only_on("postgres", "mariadb")
@pytest.mark.parametrize("seconds", [-OFF, OFF])
def test_a_database_whose_clock_jumps_ends_no_job_that_runs(
    seconds, server, cluster, user, notes, waiting, gate
):
    with cluster(workers=3) as running:
        jobs = [create_job(user, name, waiting) for name in ("wait", "wait-again")]
        for job in jobs:
            worker_of(job, notes)
        restart(server, **clock_shifted(seconds))
        try:
            queued = create_job(user, "note", {"entries": str(notes)})
            assert wait_for(lambda: ended(queued)).status == "completed", running.output()
            time.sleep(4 * 0.5 + 1)  # more than two sightings, two ticks apart
            gate.touch()
            for job in jobs:
                assert wait_for(lambda job=job: ended(job)).status == "completed"
        finally:
            restart(server)
    assert {runs(job, notes) for job in (*jobs, queued)} == {1}
