"""The holes of the protocol: each has its tests; those that have no better place are here."""

import datetime as dt
import re
import threading
from pathlib import Path

import pytest
from django.db import connection
from django_q.tasks import async_task

from django_jobs.exceptions import JobNotRetryable
from django_jobs.models import Job, JobStatus, clock
from django_jobs.services import create_job, retry_job
from django_jobs.services.settling import Sightings, settle
from django_jobs.testing import make_job
from tests.clusters.processes import FAST, Cluster, wait_for
from tests.clusters.test_lost_workers import ended, worker_of
from tests.protocol.holes import HOLES

TESTS = Path(__file__).resolve().parents[1]
ORDINARY = "tests.sample_jobs.job_handlers.ordinary_task"


@pytest.mark.parametrize("number", range(1, 30))
def test_each_hole_has_a_test(number):
    for name in HOLES[number]:
        path, function = name.split("::")
        assert re.search(rf"^def {function}\(", (TESTS / path).read_text(), re.MULTILINE), name


@pytest.fixture
def for_workers(settings):
    settings.DJANGO_JOBS = FAST


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("for_workers")
def test_h8_a_pusher_that_is_blocked_settles_all_the_same(user, tmp_path, settings):
    """Tasks fill the engine's queue while the only worker is in a long job."""
    waiting = {"entries": str(tmp_path / "entries"), "until": str(tmp_path / "gate")}
    with Cluster(tmp_path, workers=1, jobs={"TICK": 20, "LEASE": 120}, cluster={"queue_limit": 1}):
        job = create_job(user, "wait", waiting)
        worker_of(job, tmp_path / "entries")
        for number in range(4):
            async_task(ORDINARY, str(tmp_path / f"task-{number}"))
        settings.DJANGO_JOBS = {**FAST, "DEFAULT_QUEUE_TIMEOUT": 0.1}
        late = create_job(user, "noop")
        assert wait_for(lambda: ended(late), 10).failure_code == "never_started"
        (tmp_path / "gate").touch()
        assert wait_for(lambda: ended(job), 10).status == "completed"
        wait_for((tmp_path / "task-3").exists, what="the tasks have run")


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("for_workers")
def test_h10_a_handler_that_holds_the_interpreter_is_ended_past_its_limit(user, tmp_path):
    """No thread of Python's can act: the watchdog of C's ends the process."""
    with Cluster(tmp_path, workers=1):
        job = create_job(user, "slow-gil", {"entries": str(tmp_path / "entries")})
        late = wait_for(lambda: ended(job), 15)
        assert late.failure_code == "timed_out"
        following = create_job(user, "noop")
        assert wait_for(lambda: ended(following), 10).status == "completed"


@pytest.mark.django_db
@pytest.mark.usefixtures("for_workers")
def test_h17_a_job_for_tomorrow_does_not_expire_today(user, settings):
    settings.DJANGO_JOBS = {**FAST, "DEFAULT_QUEUE_TIMEOUT": 3600}
    tomorrow = clock.now() + dt.timedelta(days=1)
    job = create_job(user, "noop", run_at=tomorrow)
    assert job.start_deadline_at == tomorrow + dt.timedelta(hours=1)
    assert settle("default", Sightings()) == []
    assert Job.objects.get(pk=job.pk).status == "queued"


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("for_workers")
def test_h29_of_two_retries_at_once_one_makes_a_job(user):
    failed = make_job(user, JobStatus.FAILED, job_type="noop")
    barrier = threading.Barrier(2)
    answers = []

    def retry():
        barrier.wait()
        try:
            answers.append(retry_job(failed.pk, actor=user).retry_of_id)
        except JobNotRetryable as error:
            answers.append(type(error))
        finally:
            connection.close()

    threads = [threading.Thread(target=retry) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers, key=str) == sorted([failed.pk, JobNotRetryable], key=str)
    assert Job.objects.filter(retry_of=failed).count() == 1
