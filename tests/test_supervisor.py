"""What the supervisor decides; what it does to processes is tested with real ones."""

import os

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django.utils import timezone
from django_q.brokers.orm import ORM
from django_q.conf import Conf
from django_q.models import OrmQ

from django_jobs.services import create_job
from django_jobs.supervisor import stall as stall_module
from django_jobs.supervisor import supervising
from django_jobs.supervisor.generation import Generation
from django_jobs.supervisor.stall import STALL, Stall

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def for_workers(settings, monkeypatch):
    settings.DJANGO_JOBS = {"ENGINE": "django_q", "NOTIFY": False}
    monkeypatch.setattr(Conf, "WORKERS", 1)


@pytest.fixture
def later(monkeypatch):
    """Let ``STALL`` seconds pass."""
    now = [1000.0]
    monkeypatch.setattr(stall_module.time, "monotonic", lambda: now[0])

    def later():
        now[0] += STALL

    return later


@pytest.fixture
def generation():
    return Generation(os.getpgid(0))


def test_due_work_beside_idle_workers_for_a_while_is_a_stall(user, handler, later, generation):
    stall = Stall("default")
    assert not stall.lasts(generation)
    later()
    create_job(user, handler(lambda job: None))
    assert not stall.lasts(generation)
    later()
    assert stall.lasts(generation)


def test_another_job_each_time_is_no_stall(user, handler, later, generation):
    name = handler(lambda job: None)
    stall = Stall("default")
    for _ in range(3):
        job = create_job(user, name)
        assert not stall.lasts(generation)
        later()
        type(job).objects.filter(pk=job.pk).delete()


def test_another_cluster_has_its_own_time(user, handler, later, generation):
    create_job(user, handler(lambda job: None))
    stall = Stall("default")
    stall.lasts(Generation(1))
    later()
    assert not stall.lasts(generation)
    later()
    assert stall.lasts(generation)


def test_workers_with_ordinary_tasks_are_not_idle(user, handler, later, generation):
    create_job(user, handler(lambda job: None))
    OrmQ.objects.create(
        key=Conf.CLUSTER_NAME, payload="", lock=timezone.now() + timezone.timedelta(hours=1)
    )
    stall = Stall("default")
    stall.lasts(generation)
    later()
    assert not stall.lasts(generation)


def test_workers_with_jobs_are_not_idle(user, handler, later, generation):
    from django_jobs.execution.claim import claim_next
    from django_jobs.services.identity import worker_name

    name = handler(lambda job: None)
    create_job(user, name)
    assert claim_next("default", worker_name())  # by this process, which is of the generation
    create_job(user, name)
    stall = Stall("default")
    stall.lasts(generation)
    later()
    assert not stall.lasts(generation)
    later()
    assert not stall.lasts(Generation(1))
    later()
    assert stall.lasts(Generation(1))  # whose workers run nothing


def test_an_outage_is_no_stall(user, handler, later, generation, monkeypatch):
    create_job(user, handler(lambda job: None))
    stall = Stall("default")
    stall.lasts(generation)
    monkeypatch.setattr(stall_module.connections, "close_all", lambda: None)

    def away(*_):
        raise OperationalError("the database is away")

    with monkeypatch.context() as outage:
        outage.setattr(Stall, "_oldest_that_waits_for_nothing", away)
        later()
        assert not stall.lasts(generation)
    later()
    assert not stall.lasts(generation)  # counted anew
    later()
    assert stall.lasts(generation)


def test_a_cluster_that_takes_no_jobs_is_refused(monkeypatch):
    monkeypatch.setattr(supervising, "get_broker", lambda: object.__new__(ORM))
    with pytest.raises(CommandError, match="takes no jobs"):
        call_command("jobworker")


@pytest.mark.parametrize("number", ["0", "-1", "two"])
def test_a_number_of_workers_is_positive(number):
    with pytest.raises(CommandError, match="workers"):
        call_command("jobworker", f"--workers={number}")
