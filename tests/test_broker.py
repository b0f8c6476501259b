"""The job table as django-q2's broker, and a contract for each thing that it uses of django-q2."""

import datetime as dt
import pickle
import select
import time

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
from django_jobs.broker import DRAIN, SHORTEST_POLL, JobBroker, JobWatch, drain_package
from django_jobs.conf import conf
from django_jobs.execution.line import Line
from django_jobs.execution.sockets import IDLE, LOOK, send
from django_jobs.models import clock
from django_jobs.services import create_job, create_jobs

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def for_workers(settings, monkeypatch):
    settings.DJANGO_JOBS = {"ENGINE": "django_q", "POLL": 0.05, "NOTIFY": False}
    monkeypatch.setattr(JobWatch, "start", lambda self: self)
    # it changes the connection of its thread: here that is the connection of all tests
    monkeypatch.setattr(broker_module, "be_brisk", lambda alias: None)


@pytest.fixture
def broker():
    broker = JobBroker("tests")
    yield broker
    if broker._watch is not None:
        broker._watch.switchboard.close()


def functions(packages):
    return [SignedPackage.loads(package)["func"] for _, package in packages or []]


# -- jobs ----------------------------------------------------------------------------------------


def test_each_worker_is_given_the_word_once(broker):
    words = [SignedPackage.loads(package) for _, package in broker.dequeue()]
    assert [word["func"] for word in words] == [DRAIN] * Conf.WORKERS
    address = broker._watch.switchboard.address
    assert [word["args"][1:3] for word in words] == [
        (address, number + 1) for number in range(Conf.WORKERS)
    ]
    assert broker.dequeue() is None


@pytest.fixture
def watch():
    """What watches the table, and the lines of two drains that wait."""
    watch = JobWatch("default")
    lines = [Line.call(watch.switchboard.address, n) for n in watch.switchboard.numbers_of_words()]
    for line in lines:
        send(line._line, IDLE)
    while watch.switchboard.idle() < len(lines):
        watch.switchboard.serve(1)
    yield watch, lines
    for line in lines:
        line.close()
    watch.switchboard.close()


def awake(lines):
    return [
        line._line.recv(9) == LOOK for line in lines if select.select([line._line], [], [], 0)[0]
    ]


def test_one_drain_is_woken_for_each_due_job(user, watch, handler):
    watch, lines = watch
    name = handler(lambda job: None)
    watch.watch()
    assert awake(lines) == []
    create_job(user, name)
    watch._next_look = 0.0
    watch.watch()
    assert awake(lines) == [True]
    create_jobs(user, name, [{}] * 5)
    watch._next_look, watch._news = 0.0, True
    watch.watch()
    assert awake(lines) == [True]  # the other one; who was woken takes more by itself
    assert watch.switchboard.idle() == 0


def test_h12_what_nobody_here_may_run_wakes_nobody(user, watch, handler, external_type):
    watch, lines = watch
    name = handler(lambda job: None)
    create_job(user, name, queue="elsewhere")
    create_job(user, name, run_at=clock.now() + dt.timedelta(hours=1))
    create_job(user, external_type)
    watch._next_look = 0.0
    watch.watch()
    assert awake(lines) == []


def test_h13_a_due_job_that_nobody_can_claim_is_no_hot_loop(user, watch, handler):
    watch, lines = watch
    create_jobs(user, handler(lambda job: None), [{}] * 2)
    looks = []
    watch.due = lambda limit: looks.append(limit) or [("the same", None)] * 2
    end = time.monotonic() + 1
    while time.monotonic() < end:
        watch.watch()
        for line in lines:
            if line._line in select.select([line._line], [], [], 0)[0]:
                line._line.recv(9)
                send(line._line, IDLE)  # it found nothing
    assert len(looks) <= 1 / min(conf.POLL, SHORTEST_POLL) + 2


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
    broker.dequeue()  # the words for the workers
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
