"""Workers that die, freeze or are held up in mid-job."""

import os
import signal
import time

import pytest

from django_jobs.models import Job
from django_jobs.services import cancel_job, create_job
from tests.clusters.processes import Cluster, entries, freeze, is_sqlite, wait_for

pytestmark = pytest.mark.django_db(transaction=True)


def worker_of(job, notes):
    """The process that entered the last body of ``job``."""
    lines = wait_for(lambda: [line for line in entries(notes) if line[0] == str(job.pk)])
    return lines[-1][2]


def ended(job):
    fresh = Job.objects.get(pk=job.pk)
    return fresh if fresh.is_terminal else None


def test_a_killed_worker_costs_its_job_and_nothing_else(user, tmp_path, notes, waiting):
    with Cluster(tmp_path):
        job = create_job(user, "wait", waiting)
        os.kill(worker_of(job, notes), signal.SIGKILL)
        lost = wait_for(lambda: ended(job), 10, "the verdict")
        assert (lost.status, lost.failure_code) == ("failed", "worker_lost")
        assert lost.error_message == (
            "The worker that ran attempt 1 was lost: its process has ended."
        )
        following = create_job(user, "note", {"entries": str(notes)})
        assert wait_for(lambda: ended(following)).status == "completed"
    assert [line[1] for line in entries(notes) if line[0] == str(job.pk)] == [1]


def test_a_job_that_may_be_repeated_is_after_its_worker_was_killed(user, tmp_path, notes, waiting):
    with Cluster(tmp_path):
        job = create_job(user, "wait-again", waiting)
        os.kill(worker_of(job, notes), signal.SIGKILL)
        assert wait_for(lambda: ended(job), 15, "the second attempt").status == "completed"
    assert [line[1] for line in entries(notes)] == [1, 2]
    log = list(job.transitions.order_by("id").values_list("to_status", "code", "attempt"))
    assert log == [
        ("queued", "", 0),
        ("processing", "", 1),
        ("processing", "worker_lost", 1),
        ("processing", "", 2),
        ("completed", "", 2),
    ]


def test_after_a_cancel_request_a_killed_worker_means_no_further_attempt(
    user, tmp_path, notes, waiting
):
    with Cluster(tmp_path, jobs={"TICK": 1, "LEASE": 6}):
        job = create_job(user, "wait-again", waiting)
        pid = worker_of(job, notes)
        freeze(pid)
        cancel_job(job.pk, actor=user)
        os.kill(pid, signal.SIGKILL)
        assert wait_for(lambda: ended(job), 10).failure_code == "cancelled"
    assert len(entries(notes)) == 1


def test_a_live_handler_inside_a_transaction_is_not_robbed(user, tmp_path, notes, waiting, gate):
    """On SQLite its write transaction holds up its own keeper, and every settler."""
    with Cluster(tmp_path, jobs={"TICK": 0.5, "LEASE": 3, "POLL": 0.5}):
        job = create_job(user, "in-transaction", waiting)
        (_, _, _, began_at), *_ = wait_for(lambda: entries(notes))
        seen = set()
        if is_sqlite():
            wait_for(lambda: time.time() - began_at > 9, what="three leases")
        else:
            wait_for(lambda: seen.add(Job.objects.get(pk=job.pk).progress) or len(seen) > 3)
            wait_for(lambda: job.assets.exists(), what="the asset is seen before the commit")
        assert Job.objects.get(pk=job.pk).status == "processing"
        gate.touch()
        done = wait_for(lambda: ended(job), 30, "the end")
        assert (done.status, done.error_message) == ("completed", "")
    assert len(entries(notes)) == 1


def test_an_asset_is_attached_though_the_handler_locks_what_it_refers_to(
    user, tmp_path, notes, waiting, gate
):
    with Cluster(tmp_path, jobs={"TICK": 0.5, "LEASE": 3}):
        job = create_job(user, "locks-user", waiting)
        wait_for(lambda: entries(notes))
        gate.touch()
        assert wait_for(lambda: ended(job), 30).status == "completed"
    assert [asset.name for asset in job.assets.all()] == ["inside.txt"]
