"""Group A, limits: a job that takes too long ends FAILED, once, whatever its handler does."""

import os
import random
import signal
import time
from contextlib import ExitStack

import psutil
import pytest
from django_q.models import OrmQ
from django_q.tasks import async_task

from django_jobs.models import Job
from django_jobs.services import create_job
from tests.cases.books import ended
from tests.clusters.processes import Cluster, entries, wait_for

pytestmark = pytest.mark.django_db(transaction=True)

LIMIT = "The job took longer than its limit of 1 s."
RUNS = int(os.environ.get("TEST_CASES_RUNS", "60"))  # 300 when the suite is run for chaos


def verdict_on(job, seconds=15):
    """Wait for the end of a job that took too long; its own worker has said where it was."""
    late = wait_for(lambda: ended(job), seconds, "the verdict")
    assert (late.status, late.failure_code, late.error_message) == ("failed", "timed_out", LIMIT)
    assert "case_handlers.py" in late.transitions.order_by("id").last().detail
    return late


def test_a01_a_job_past_its_limit_fails_by_that_name_and_the_next_one_runs(
    cluster, user, tmp_path, notes
):
    # ordinary tasks are django-q2's rows; jobs have no rows on the broker at all
    async_task("tests.sample_jobs.job_handlers.ordinary_task", str(tmp_path / "task"))
    long = create_job(user, "sleeps", {"entries": str(notes), "seconds": 30})
    short = create_job(user, "sleeps", {"entries": str(notes), "seconds": 0})
    with cluster(workers=1):
        late = verdict_on(long)
        assert 1 <= (late.completed_at - late.started_at).total_seconds() < 1 + 1 + 2
        assert wait_for(lambda: ended(short)).status == "completed"
        wait_for((tmp_path / "task").exists, what="the ordinary task ran")
        wait_for(lambda: not OrmQ.objects.exists(), what="the broker's table is empty")


def test_a02_a_job_past_its_limit_is_not_handed_out_again(user, tmp_path, notes):
    # django-q2's own retry, timeout and ack_failures are set as in the case; jobs follow none
    engine = {"retry": 2, "timeout": 1, "max_attempts": 1}
    parameters = {"entries": str(notes), "seconds": 20}
    jobs = {name: create_job(user, "sleeps", parameters, queue=name) for name in ("ack", "keep")}
    with ExitStack() as clusters:
        for name in jobs:
            options = {**engine, "ack_failures": name == "ack"}
            clusters.enter_context(
                Cluster(tmp_path, name=name, workers=1, cluster=options, DJANGO_JOBS_QUEUES=name)
            )
        for job in jobs.values():
            verdict_on(job)
        time.sleep(2 * engine["retry"] + 0.5)  # two more hand-outs would come in this time
        assert OrmQ.objects.count() == 0
        for name in jobs:
            trivial = create_job(user, "noop", queue=name)
            wait_for(lambda trivial=trivial: ended(trivial))
    assert sorted(line[0] for line in entries(notes)) == sorted(str(j.pk) for j in jobs.values())


def test_a13_a_limit_that_strikes_at_the_end_leaves_one_whole_outcome(cluster, user, notes):
    moments = [1 + random.uniform(-0.15, 0.15) for _ in range(RUNS)]
    parameters = {"entries": str(notes)}
    cleaning = create_job(user, "cleans-up-slowly", parameters)
    jobs = [
        create_job(user, "sleeps", {**parameters, "seconds": seconds})
        for seconds in (0.3, 10, *moments)
    ]
    with cluster(workers=14):
        wait_for(lambda: not Job.objects.live().exists(), 30 + RUNS / 4, "all jobs have ended")
        verdict_on(cleaning)
        ends = [ended(job) for job in jobs]
    for job in ends:
        if job.status == "completed":
            assert (job.progress, job.result) == (100, {"slept": job.parameters["seconds"]})
        else:
            assert (job.status, job.error_message, job.result) == ("failed", LIMIT, None)
    assert [job.status for job in ends[:2]] == ["completed", "failed"]
    assert len(entries(notes)) == len(jobs) + 1


@pytest.mark.parametrize("way", ["has-an-alarm-of-its-own", "ignores-our-signal"])
def test_a14_a_handler_that_disables_signals_is_ended_all_the_same(cluster, user, notes, way):
    with cluster(workers=1):
        late = verdict_on(create_job(user, way, {"entries": str(notes)}))
        assert (late.completed_at - late.started_at).total_seconds() < 1 + 1 + 2  # limit, grace


def test_a16_programs_started_by_a_handler_leave_no_zombies_and_no_doubt(
    cluster, user, notes, told
):
    """What ``docs/handlers.md`` says of programs: who ends them, and when nobody does."""
    ways = ["run", "finally", "run", "wait", "with"]
    with cluster(workers=len(ways)) as running:
        try:
            parameters = {"entries": str(notes), "told": str(told)}
            jobs = [
                create_job(user, "starts-a-program", {**parameters, "way": way}) for way in ways
            ]
            for job in jobs:
                verdict_on(job)
            programs = sorted(line.split() for line in told.read_text().splitlines())
            assert [way for way, _ in programs] == sorted(ways)
            for way, pid in programs:
                if way in {"run", "finally"}:
                    wait_for(lambda pid=pid: not _is_program(pid), what="the program is gone")
                else:
                    assert _is_program(pid)  # nobody has ended it
            wait_for(lambda: _workers_are_whole(running), what="live workers, no zombies")
        finally:
            for line in told.read_text().splitlines():
                _end_program(line.split()[1])


def test_a17_a_deadlocked_handler_ends_at_the_limit_that_all_types_have(
    cluster, user, notes, waiting, gate
):
    with cluster(workers=2, jobs={"DEFAULT_TIMEOUT": 1}):
        unlimited = create_job(user, "wait", waiting)  # declared with timeout=None
        deadlocked = create_job(user, "deadlocks", {"entries": str(notes)})
        verdict_on(deadlocked)
        assert Job.objects.get(pk=unlimited.pk).run_deadline_at is None
        gate.touch()
        assert wait_for(lambda: ended(unlimited)).status == "completed"


def _workers_are_whole(running):
    try:
        states = [child.status() for child in running.children() if child.name() != "sleep"]
    except psutil.NoSuchProcess:  # one ended while they were looked at: look again
        return False
    return len(running.worker_pids()) == running.workers and psutil.STATUS_ZOMBIE not in states


def _is_program(pid):
    try:
        return psutil.Process(int(pid)).name() == "sleep"
    except psutil.NoSuchProcess:
        return False


def _end_program(pid):
    if _is_program(pid):
        os.kill(int(pid), signal.SIGKILL)
