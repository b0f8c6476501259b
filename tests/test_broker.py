"""The job table as django-q2's broker, and a contract for each thing that it uses of django-q2."""

import pickle

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django_q.brokers import get_broker
from django_q.brokers.orm import ORM
from django_q.conf import Conf
from django_q.models import OrmQ
from django_q.signing import SignedPackage
from django_q.tasks import async_task

from django_jobs import broker as broker_module
from django_jobs.broker import DRAIN, JobBroker, JobWatch, drain_package
from django_jobs.models import Job, clock
from django_jobs.services import create_job, create_jobs

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def for_workers(settings, monkeypatch):
    settings.DJANGO_JOBS = {"ENGINE": "django_q", "POLL": 0.05, "NOTIFY": False}
    monkeypatch.setattr(broker_module, "_settle_for_ever", lambda alias: None)
    # it changes the connection of its thread: here that is the connection of all tests
    monkeypatch.setattr(broker_module, "be_brisk", lambda alias: None)


@pytest.fixture
def broker():
    return JobBroker("tests")


def functions(packages):
    return [SignedPackage.loads(package)["func"] for _, package in packages or []]


# -- jobs ----------------------------------------------------------------------------------------


def test_each_due_job_gets_a_drain_up_to_the_workers(user, broker, handler):
    name = handler(lambda job: None)
    create_job(user, name)
    assert functions(broker.dequeue()) == [DRAIN]
    create_jobs(user, name, [{}] * 5)
    Job.objects.order_by("pk").first().delete()  # the oldest is another one now
    handed_out = []
    while not handed_out:
        handed_out = functions(broker.dequeue())
    assert handed_out == [DRAIN] * Conf.WORKERS


def test_nothing_due_hands_out_nothing(user, broker, handler):
    name = handler(lambda job: None)
    create_job(user, name, queue="elsewhere")
    create_job(user, name, run_at=clock.now() + (clock.now() - clock.now()).resolution * 10**9)
    assert broker.dequeue() is None


def test_h12_types_without_a_handler_here_hand_out_nothing(user, broker, external_type):
    create_job(user, external_type)
    assert broker.dequeue() is None


def test_h13_a_due_job_that_nobody_can_claim_is_no_hot_loop(user, broker, handler):
    create_job(user, handler(lambda job: None))
    watch = JobWatch("default")
    assert watch.drains_wanted() == 1
    assert sum(watch.drains_wanted() for _ in range(100)) == 0  # the same oldest job, at once
    watch._next_drains = watch._handed_out_at = 0.0  # a poll later
    assert watch.drains_wanted() == 1


def test_a_drain_is_given_no_limit_no_result_row_and_no_acknowledgement():
    task = SignedPackage.loads(drain_package())
    assert (task["timeout"], task["save"], task["func"]) == (-1, False, DRAIN)
    assert "ack_id" not in task


def test_h27_errors_of_the_database_stay_inside(broker, monkeypatch):
    def broken(self):
        raise OperationalError("the database is away")

    monkeypatch.setattr(JobBroker, "_next_packages", broken)
    assert broker.dequeue() is None


def test_making_and_pickling_a_broker_asks_no_database():
    with CaptureQueriesContext(connection) as captured:
        copy = pickle.loads(pickle.dumps(JobBroker("other")))
    assert len(captured) == 0
    assert (copy.list_key, copy.info(), copy.ping()) == ("other", "django_jobs", True)


# -- ordinary tasks --------------------------------------------------------------------------------


def test_ordinary_tasks_come_through_and_are_acknowledged(broker):
    async_task("math.floor", 1.5, broker=broker)
    ((ack_id, package),) = broker.dequeue()
    assert SignedPackage.loads(package)["func"] == "math.floor"
    broker.acknowledge(ack_id)
    assert not OrmQ.objects.exists()


def test_acknowledging_a_drain_touches_nothing(broker):
    async_task("math.floor", 1.5, broker=broker)
    with CaptureQueriesContext(connection) as captured:
        broker.acknowledge(None)
    assert len(captured) == 0
    assert OrmQ.objects.count() == 1


# -- what we use of django-q2 ----------------------------------------------------------------------


def test_the_cluster_makes_its_broker_from_the_setting():
    assert Conf.BROKER_CLASS == "django_jobs.broker.JobBroker"
    assert type(get_broker()) is JobBroker
    assert get_broker("elsewhere").list_key == "elsewhere"


def test_the_orm_broker_has_what_is_built_upon():
    assert issubclass(JobBroker, ORM)
    for name in ("get_connection", "dequeue", "acknowledge", "enqueue", "fail", "get_cache"):
        assert callable(getattr(ORM, name))
    assert {"key", "lock", "payload"} <= {field.name for field in OrmQ._meta.fields}


def test_a_package_is_what_a_worker_unpacks():
    """``django_q.worker`` reads func, name, args, kwargs, timeout; the monitor save and success."""
    task = SignedPackage.loads(drain_package())
    assert {"id", "func", "name", "args", "kwargs", "started", "timeout", "save"} <= set(task)
