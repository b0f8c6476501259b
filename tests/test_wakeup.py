"""How workers hear of new work."""

import select

import pytest
from django.db import OperationalError, connection, transaction

from django_jobs.services import create_job, create_jobs
from django_jobs.wakeup import Listener

pytestmark = pytest.mark.django_db(transaction=True)
only_postgresql = pytest.mark.skipif(
    connection.vendor != "postgresql", reason="nothing notifies and nothing listens elsewhere"
)


@pytest.fixture(autouse=True)
def for_workers(settings):
    settings.DJANGO_JOBS = {"ENGINE": "django_q"}


@pytest.fixture
def notifications(monkeypatch):
    """How many notifications were sent."""
    sent = []
    monkeypatch.setattr("django_jobs.wakeup._notify", sent.append)
    return sent


def is_postgresql():
    return connection.vendor == "postgresql"


def test_a_new_job_notifies_after_its_commit_on_postgresql_only(user, external_type, notifications):
    with transaction.atomic():
        create_job(user, external_type)
        assert notifications == []
    assert notifications == (["default"] if is_postgresql() else [])


def test_many_jobs_of_one_transaction_need_one_notification(user, external_type, notifications):
    with transaction.atomic():
        for _ in range(5):
            create_job(user, external_type)
        create_jobs(user, external_type, [{}] * 5)
    assert len(notifications) == (1 if is_postgresql() else 0)


def test_what_a_savepoint_took_back_is_made_up_for(user, external_type, notifications):
    with transaction.atomic():
        try:
            with transaction.atomic():
                create_job(user, external_type)
                raise KeyError
        except KeyError:
            pass
        create_job(user, external_type)
    assert len(notifications) == (1 if is_postgresql() else 0)


def test_a_job_for_later_notifies_nobody(user, external_type, notifications):
    from django_jobs.models import clock

    later = clock.now().replace(year=clock.now().year + 1)
    create_job(user, external_type, run_at=later)
    assert notifications == []


def test_a_listener_hears_of_new_jobs_where_it_can(user, external_type):
    listener = Listener("default")
    try:
        assert listener.begin() == listener.is_listening == is_postgresql()
        assert not listener.begin()  # it listens already, or never will
        assert not listener.was_notified()
        create_job(user, external_type)
        readable, _, _ = select.select(listener.descriptors(), [], [], 5 if is_postgresql() else 0)
        assert bool(readable) == listener.was_notified() == is_postgresql()
        assert not listener.was_notified()
    finally:
        listener.close()


@only_postgresql
def test_h28_a_connection_that_does_not_hear_itself_is_not_listened_to(monkeypatch, caplog):
    monkeypatch.setattr("django_jobs.wakeup.PROOF", 0.05)
    real = Listener._hears_itself

    def behind_a_pooler(self):
        with self._wrapper.cursor() as cursor:
            cursor.execute("UNLISTEN *")  # the session that listens is another one
        return real(self)

    monkeypatch.setattr(Listener, "_hears_itself", behind_a_pooler)
    listener = Listener("default")
    assert not listener.begin()
    assert not listener.is_listening
    assert "polling instead of listening" in caplog.text


@only_postgresql
@pytest.mark.parametrize("first_seen_by", ["descriptors", "was_notified"])
def test_a_broken_listener_polls_and_tries_again_later(first_seen_by, caplog):
    listener = Listener("default")
    listener.begin()
    listener._wrapper.connection.close()
    getattr(listener, first_seen_by)()
    assert listener.descriptors() == []
    assert not listener.is_listening
    assert "was lost" in caplog.text
    assert not listener.begin()
    listener._retry_at = 0.0
    assert listener.begin()
    assert listener.is_listening
    listener.close()


@only_postgresql
def test_a_notification_that_cannot_be_sent_fails_nothing(user, external_type, monkeypatch, caplog):
    real = connection.cursor

    def cursor(*args, **kwargs):
        if not connection.in_atomic_block:
            raise OperationalError("the line is broken")
        return real(*args, **kwargs)

    monkeypatch.setattr(connection, "cursor", cursor)
    with transaction.atomic():
        create_job(user, external_type)
    assert "no worker was notified" in caplog.text
