"""``manage.py jobworker``: one process tree that stops in order and is never left hanging."""

import os
import signal

import psutil
import pytest

from django_jobs.services import create_job
from tests.clusters.processes import Cluster, entries, freeze, wait_for
from tests.clusters.test_idle_workers import all_wait_inside_drains
from tests.clusters.test_lost_workers import ended, worker_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def jobworker(tmp_path):
    def start(*arguments, **options):
        return Cluster(tmp_path, command=("jobworker", *arguments), **options)

    return start


def everybody(cluster):
    return [cluster.process, *cluster.children()]


def nobody_is_left(processes):
    return not any(psutil.pid_exists(process.pid) for process in processes[1:])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("times", [1, 2])
def test_a_signal_to_the_group_lets_running_jobs_end(
    number, times, user, jobworker, notes, waiting, gate
):
    with jobworker() as cluster:
        job = create_job(user, "wait", waiting)
        worker_of(job, notes)
        processes = everybody(cluster)
        for _ in range(times):
            os.killpg(cluster.process.pid, number)
        queued = create_job(user, "note", {"entries": str(notes)})
        wait_for(lambda: "stopping" in cluster.output())
        gate.touch()
        assert cluster.process.wait(timeout=15) == 0, cluster.output()
        assert nobody_is_left(processes)
        assert "has stopped in order" in cluster.output()
    assert ended(job).status == "completed"
    queued.refresh_from_db()
    assert queued.status in {"queued", "completed"}  # never lost, never half


@pytest.mark.parametrize(
    ("job_type", "status", "attempt"), [("wait", "failed", 1), ("wait-again", "processing", 1)]
)
def test_a_job_that_does_not_end_in_time_is_put_back_or_fails_as_shutdown(
    job_type, status, attempt, user, jobworker, notes, waiting
):
    with jobworker(jobs={"SHUTDOWN_GRACE": 0.5}) as cluster:
        job = create_job(user, job_type, waiting)
        worker_of(job, notes)
        cluster.process.terminate()
        assert cluster.process.wait(timeout=15) == 0, cluster.output()
    job.refresh_from_db()
    assert (job.status, job.attempt) == (status, attempt)
    assert job.transitions.order_by("id").last().code == "shutdown"
    if status == "failed":
        assert job.failure_code == "shutdown"
        assert job.error_message
    else:
        assert job.is_waiting


@pytest.mark.parametrize("who", ["main", "guard", "pusher", "monitor"])
def test_after_any_process_is_killed_jobs_go_on_and_the_running_one_ends(
    who, user, jobworker, notes, waiting, gate
):
    with jobworker() as cluster:
        running = create_job(user, "wait", waiting)
        worker_of(running, notes)
        victim = {
            "main": cluster.main_pid,
            "guard": cluster.guard_pid,
            "pusher": lambda: cluster.process_named("pushing tasks"),
            "monitor": lambda: cluster.process_named("monitoring"),
        }[who]()
        os.kill(victim, signal.SIGKILL)
        for _ in range(3):
            job = create_job(user, "note", {"entries": str(notes)})
            assert wait_for(lambda job=job: ended(job), 15).status == "completed"
        gate.touch()
        assert wait_for(lambda: ended(running), 15).status == "completed"
        assert len([line for line in entries(notes) if line[0] == str(running.pk)]) == 1
        processes = everybody(cluster)
        cluster.process.terminate()
        assert cluster.process.wait(timeout=15) == 0, cluster.output()
        assert nobody_is_left(processes)


def test_nobody_outlives_a_killed_supervisor(user, jobworker):
    with jobworker() as cluster:
        wait_for(lambda: all_wait_inside_drains(cluster))
        processes = everybody(cluster)
        cluster.process.kill()
        wait_for(lambda: nobody_is_left(processes), 15, "the whole tree has ended")


def test_a_cluster_that_lives_and_takes_up_nothing_is_followed_by_another(user, jobworker):
    with jobworker(workers=1, jobs={"SHUTDOWN_GRACE": 1}) as cluster:
        wait_for(lambda: all_wait_inside_drains(cluster))
        for pid in cluster.worker_pids():
            freeze(pid)
        job = create_job(user, "noop")
        assert wait_for(lambda: ended(job), 40).status == "completed"
        assert "takes up no jobs: another begins" in cluster.output()


def test_a_signal_to_every_single_process_hangs_nothing(user, jobworker, notes, waiting):
    """As systemd sends it with KillMode=control-group: workers die at once."""
    with jobworker() as cluster:
        job = create_job(user, "wait", waiting)
        worker_of(job, notes)
        for process in reversed(everybody(cluster)):
            os.kill(process.pid, signal.SIGTERM)
        assert cluster.process.wait(timeout=15) == 0, cluster.output()
    assert ended(job).failure_code == "worker_lost"


def test_queues_and_workers_are_chosen_by_options(user, jobworker, notes):
    with jobworker("--queue", "here", "--workers", "1", workers=1) as cluster:
        elsewhere = create_job(user, "note", {"entries": str(notes)}, queue="elsewhere")
        here = create_job(user, "note", {"entries": str(notes)}, queue="here")
        assert wait_for(lambda: ended(here)).status == "completed"
        elsewhere.refresh_from_db()
        assert elsewhere.status == "queued"
        assert len(cluster.worker_pids()) == 1


def test_it_begins_anew_when_a_file_changes(user, jobworker, tmp_path):
    module = tmp_path / "changing_module.py"
    module.write_text("ANSWER = 1\n")
    (tmp_path / "sitecustomize.py").write_text("import changing_module\n")
    with jobworker("--reload", PYTHONPATH=str(tmp_path)) as cluster:
        wait_for(lambda: all_wait_inside_drains(cluster))
        wait_for(lambda: "watches" in cluster.output())
        module.write_text("ANSWER = 2\n")
        os.utime(module, (1, 1))
        wait_for(lambda: "beginning anew" in cluster.output(), 20)
        wait_for(lambda: cluster.output().count("jobworker") >= 2, 20)
        job = create_job(user, "noop")
        assert wait_for(lambda: ended(job), 20).status == "completed"
