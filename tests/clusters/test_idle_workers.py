"""Workers that have nothing to do: a SIGKILL among them must hang nothing."""

import os
import signal

import psutil
import pytest
from django_q.tasks import async_task

from django_jobs.services import create_job
from tests.clusters.processes import Cluster, wait_for
from tests.clusters.test_lost_workers import ended

pytestmark = pytest.mark.django_db(transaction=True)
TASK = "tests.sample_jobs.job_handlers.ordinary_task"
COMMANDS = [("qcluster",), ("jobworker",)]


def all_wait_inside_drains(cluster):
    drains = cluster.output().count("processing drain") - cluster.output().count("drain' (drain)")
    return drains >= cluster.workers


@pytest.mark.parametrize("command", COMMANDS)
def test_killed_idle_workers_are_replaced_and_jobs_go_on(command, user, tmp_path):
    with Cluster(tmp_path, workers=2, command=command) as cluster:
        for _ in range(4):
            victim = min(cluster.worker_pids())
            wait_for(lambda: all_wait_inside_drains(cluster))
            os.kill(victim, signal.SIGKILL)
            job = create_job(user, "noop")
            assert wait_for(lambda job=job: ended(job), 5).status == "completed"
            wait_for(
                lambda victim=victim: len(set(cluster.worker_pids()) - {victim}) >= 2,
                what="the killed worker is replaced",
            )
        cluster.process.terminate()
        assert cluster.process.wait(timeout=10) == 0  # nothing hangs


def test_ordinary_tasks_find_a_worker_though_all_wait_inside_drains(user, tmp_path):
    with Cluster(tmp_path, workers=2) as cluster:
        wait_for(lambda: all_wait_inside_drains(cluster))
        for number in range(5):
            path = tmp_path / f"task-{number}"
            async_task(TASK, str(path))
            wait_for(path.exists, 3, "the task has run")
        job = create_job(user, "noop")
        assert wait_for(lambda: ended(job), 5).status == "completed"


def test_a_killed_pusher_is_replaced_and_jobs_go_on(user, tmp_path):
    with Cluster(tmp_path, workers=2) as cluster:
        wait_for(lambda: all_wait_inside_drains(cluster))
        os.kill(cluster.process_named("pushing tasks"), signal.SIGKILL)
        job = create_job(user, "noop")
        assert wait_for(lambda: ended(job), 10).status == "completed"


@pytest.mark.parametrize("who", ["guard", "main"])
def test_the_workers_of_a_cluster_whose_head_was_killed_end(who, user, tmp_path):
    with Cluster(tmp_path, workers=2) as cluster:
        wait_for(lambda: all_wait_inside_drains(cluster))
        orphans = [*cluster.worker_pids(), cluster.process_named("pushing tasks")]
        pid = cluster.guard_pid() if who == "guard" else cluster.process.pid
        monitor = cluster.process_named("monitoring")
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not any(map(psutil.pid_exists, orphans)), 10, "the orphans have ended")
        os.kill(monitor, signal.SIGKILL)  # the engine's own; only a supervisor ends it
