"""K05: whatever ended a job can be told from its row, its log and the lines of the logger."""

import os
import signal

import pytest

from django_jobs.models import FailureCode
from django_jobs.services import cancel_job, create_job
from tests.cases.books import ended
from tests.clusters.processes import FAST, Cluster, wait_for
from tests.clusters.test_lost_workers import worker_of

pytestmark = pytest.mark.django_db(transaction=True)


def test_k05_each_cause_has_its_own_code_message_and_line(
    user, tmp_path, notes, waiting, handler, settings
):
    parameters = {"entries": str(notes)}
    jobs = {}
    with Cluster(tmp_path, workers=2, jobs={"SHUTDOWN_GRACE": 0.5}) as cluster:
        jobs["handler_error"] = create_job(user, "flaky", {**parameters, "succeeds_at": 9})
        jobs["timed_out"] = create_job(user, "slow-python", parameters)
        jobs["invalid_result"] = create_job(user, "unstorable", parameters)
        settings.DJANGO_JOBS = {**FAST, "DEFAULT_QUEUE_TIMEOUT": 0.1}
        jobs["never_started"] = create_job(user, "noop", queue="elsewhere")
        jobs["unknown_job_type"] = create_job(user, handler(lambda job: None, name="unheard-of"))
        settings.DJANGO_JOBS = FAST
        for code in list(jobs):
            wait_for(lambda code=code: ended(jobs[code]), what=code)
        for code, end in (("worker_lost", kill), ("cancelled", cancel)):
            jobs[code] = create_job(user, "wait", waiting)
            end(jobs[code], worker_of(jobs[code], notes), user)
            wait_for(lambda code=code: ended(jobs[code]), what=code)
        jobs["shutdown"] = create_job(user, "wait", waiting)
        worker_of(jobs["shutdown"], notes)
        cluster.process.terminate()
        assert cluster.process.wait(timeout=15) == 0
        output = cluster.output()
    rows = {code: ended(job) for code, job in jobs.items()}
    assert {code: row.failure_code for code, row in rows.items()} == {code: code for code in jobs}
    assert len({row.error_message for row in rows.values()}) == len(jobs) == 8
    for code, row in rows.items():
        last = row.transitions.order_by("id").last()
        assert (last.code, last.message) == (code, row.error_message)
        assert bool(last.detail) == (
            code in {"handler_error", "timed_out", "cancelled", "shutdown"}
        )
        line = next(line for line in output.splitlines() if str(row.pk) in line and code in line)
        assert row.job_type in line
    assert set(rows) <= set(FailureCode.values)


def kill(job, pid, user):
    os.kill(pid, signal.SIGKILL)


def cancel(job, pid, user):
    cancel_job(job.pk, actor=user)
