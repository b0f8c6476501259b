"""Group A, deaths: what runs in a process that dies ends, what waits is run or ends too."""

import fcntl
import os
import signal
import subprocess
import sys

import psutil
import pytest
from django.core.management import call_command
from django.db import connection, transaction

from django_jobs.models import Job, clock
from django_jobs.services import create_job
from django_jobs.services.identity import machine_prefix
from django_jobs.services.settling import BATCH
from django_jobs.testing import make_job
from tests.cases.books import ended
from tests.cases.locks import log_locked
from tests.clusters.processes import ROOT, Cluster, entries, environment, is_sqlite, wait_for
from tests.clusters.test_lost_workers import worker_of
from tests.stored import row_of

pytestmark = pytest.mark.django_db(transaction=True)

LOST = "The worker that ran attempt 1 was lost: its process has ended."


JOBS = 2 * BATCH + 10  # in the sweep that is killed: too many for two batches


def command(*arguments):
    """``manage.py`` in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "django", *arguments],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        bufsize=0,  # no line is taken from the pipe before it is read
    )


def output_of(process):
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return output.decode()


def kill_all(running):
    """SIGKILL the whole process group of a cluster, and whoever left it."""
    everyone = [child.pid for child in running.children()]
    os.killpg(running.process.pid, signal.SIGKILL)
    running.process.wait()
    for pid in everyone:
        wait_for(lambda pid=pid: _is_gone(pid), what="the cluster is dead")


def _is_gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a04_after_a_cluster_is_killed_its_running_jobs_end_and_its_queue_is_run(
    cluster, user, tmp_path, notes, waiting
):
    with Cluster(tmp_path, name="killed", workers=3) as killed:
        lost = [create_job(user, "wait", waiting) for _ in range(2)]
        repeated = create_job(user, "wait-again", waiting)  # may have a second attempt
        for job in (*lost, repeated):
            worker_of(job, notes)
        queued = [create_job(user, "note", {"entries": str(notes)}) for _ in range(5)]
        kill_all(killed)
    assert Job.objects.live().count() == 8
    with cluster(workers=3):
        for job in lost:
            end = wait_for(lambda job=job: ended(job))
            assert (end.status, end.error_message) == ("failed", LOST)
        for job in (*queued, repeated):
            assert wait_for(lambda job=job: ended(job)).status == "completed"
        assert not Job.objects.live().exists()
    bodies = [(line[0], line[1]) for line in entries(notes)]
    once = [(str(job.pk), 1) for job in (*lost, *queued)]
    assert sorted(bodies) == sorted([*once, (str(repeated.pk), 1), (str(repeated.pk), 2)])


def test_a05_a_job_that_nobody_takes_up_ends_without_workers_and_stays_so(
    cluster, user, notes, settings, capsys
):
    settings.DJANGO_JOBS = {**settings.DJANGO_JOBS, "DEFAULT_QUEUE_TIMEOUT": 0.2}
    job = create_job(user, "note", {"entries": str(notes)})
    wait_for(lambda: clock.now() > job.start_deadline_at)
    call_command("settle_jobs")
    assert f"{job.pk} note: failed, never_started" in capsys.readouterr().out
    end = ended(job)
    assert (end.status, end.failure_code) == ("failed", "never_started")
    assert end.error_message == "No worker took up the job within 0.2 s."
    before = row_of(job)
    settings.DJANGO_JOBS = {**settings.DJANGO_JOBS, "DEFAULT_QUEUE_TIMEOUT": 60}
    with cluster():
        following = create_job(user, "note", {"entries": str(notes)})
        wait_for(lambda: ended(following))
    assert row_of(job) == before
    assert [line[0] for line in entries(notes)] == [str(following.pk)]


def test_a19_a_lost_worker_is_found_though_no_record_of_it_is_left(user, tmp_path, notes, waiting):
    # what django-q2 knows of its workers is in the cache of the cluster's own processes
    with Cluster(tmp_path) as killed:
        job = create_job(user, "wait", waiting)
        worker_of(job, notes)
        kill_all(killed)
    assert Job.objects.get(pk=job.pk).status == "processing"
    output_of(command("settle_jobs"))
    end = ended(job)
    assert (end.status, end.failure_code, end.error_message) == ("failed", "worker_lost", LOST)


def lost_jobs(user, number):
    """Jobs whose worker, a process of this machine, is gone."""
    worker = f"{machine_prefix()}{2**30}/1/abcd"  # no process can have this number
    return [make_job(user, "processing", job_type="noop", worker=worker) for _ in range(number)]


def test_a20_a_sweep_that_is_killed_hinders_no_later_sweep(user):
    jobs = lost_jobs(user, JOBS)
    sweep = command("settle_jobs")
    fcntl.fcntl(sweep.stdout, fcntl.F_SETPIPE_SZ, 4096)  # holds some 30 lines of the first batch
    sweep.stdout.readline()
    with log_locked() as is_waited_for:  # the next batch has to wait in the midst of its first job
        for _ in range(BATCH - 1):
            sweep.stdout.readline()
        wait_for(is_waited_for, what="the sweep waits for the lock")
        sweep.kill()
        sweep.communicate()
    wait_for(_no_row_is_locked, what="the database has noticed")
    left = {str(job.pk) for job in Job.objects.live()}
    assert len(left) == JOBS - BATCH
    second = output_of(command("settle_jobs"))
    assert second.splitlines()[-1] == f"settled: {len(left)} ended, 0 put back"
    assert {line.split()[0] for line in second.splitlines()[:-1]} == left
    for job in jobs:
        assert ended(job).error_message == LOST


@pytest.mark.skipif(is_sqlite(), reason="SQLite locks no single row")
def test_a20_a_sweep_passes_over_a_row_that_is_locked_and_the_next_one_ends_it(user):
    locked, *others = lost_jobs(user, 10)
    with transaction.atomic():
        Job.objects.select_for_update().get(pk=locked.pk)
        assert "settled: 9 ended, 0 put back" in output_of(command("settle_jobs"))
    assert all(ended(job) for job in others)
    assert not ended(locked)
    assert "settled: 1 ended, 0 put back" in output_of(command("settle_jobs"))
    assert ended(locked).error_message == LOST


def test_a22_a_job_that_kills_its_worker_ends_and_the_others_are_done(cluster, user, notes):
    parameters = {"entries": str(notes)}
    poison = create_job(user, "killed", parameters)
    twice = create_job(user, "killed-each-time", parameters)  # may have a second attempt
    good = [create_job(user, "note", parameters) for _ in range(20)]
    with cluster(workers=2) as running:
        for job in good:
            assert wait_for(lambda job=job: ended(job)).status == "completed"
        assert wait_for(lambda: ended(poison), 15).failure_code == "worker_lost"
        assert wait_for(lambda: ended(twice), 15).failure_code == "worker_lost"
        wait_for(lambda: running.output().count("after death") >= 3, what="three deaths are seen")
    assert running.output().count("after death") == 3  # one for each attempt, then no more
    bodies = [line[0] for line in entries(notes)]
    assert bodies.count(str(poison.pk)) == 1
    assert bodies.count(str(twice.pk)) == 2
    assert len(bodies) == 23


def _no_row_is_locked():
    live = Job.objects.live()
    if not connection.features.has_select_for_update_skip_locked:
        return True
    with transaction.atomic():
        return len(live.select_for_update(skip_locked=True)) == live.count()
