import datetime as dt
import time
from types import SimpleNamespace

import pytest
from django.db import OperationalError, connection, connections, transaction
from django.utils import timezone

from django_jobs.models import Job, clock
from django_jobs.testing import make_job
from tests.stored import Statements

pytestmark = pytest.mark.django_db

HOUR = dt.timedelta(hours=1)
MICROSECONDS = {
    **clock._EPOCH_MICROSECONDS,
    "sqlite": "SELECT CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)",
}


def near(moment, other, seconds=2):
    return abs(moment - other) < dt.timedelta(seconds=seconds)


def as_utc(moment):
    """Return a moment of the clock as an aware one in UTC, whatever USE_TZ is."""
    aware = timezone.make_aware(moment) if timezone.is_naive(moment) else moment
    return aware.astimezone(dt.UTC)


@pytest.fixture
def unmeasured(monkeypatch):
    """Forget what was measured on the connection, before the test and after it."""
    monkeypatch.setattr(connection, clock._ATTRIBUTE, (None, 0.0, None), raising=False)


@pytest.fixture
def hour_ahead(monkeypatch, unmeasured):
    """A database whose clock is an hour ahead of this host's."""
    sql = f"{MICROSECONDS[connection.vendor]} + 3600000000"
    monkeypatch.setitem(clock._EPOCH_MICROSECONDS, connection.vendor, sql)


@pytest.fixture
def later(monkeypatch):
    """Move this process's monotonic time on."""
    moved = SimpleNamespace(seconds=0.0)
    fake = SimpleNamespace(time_ns=time.time_ns, monotonic=lambda: time.monotonic() + moved.seconds)
    monkeypatch.setattr(clock, "time", fake)

    def move(seconds):
        moved.seconds += seconds

    return move


def test_the_time_is_aware_if_the_project_uses_time_zones(settings):
    for use_tz in (True, False):
        settings.USE_TZ = use_tz
        assert timezone.is_aware(clock.now()) is use_tz
        assert near(as_utc(clock.now()), dt.datetime.now(dt.UTC))


def test_the_time_is_that_of_the_database(hour_ahead):
    assert near(as_utc(clock.now()), dt.datetime.now(dt.UTC) + HOUR)
    assert near(clock.now(), timezone.now() + HOUR)


def test_a_new_job_has_the_time_of_the_database(hour_ahead, user):
    job = Job.objects.get(pk=make_job(user).pk)
    assert near(as_utc(job.created_at), dt.datetime.now(dt.UTC) + HOUR)


def test_all_times_of_a_job_are_true(user):
    job = make_job(user)
    job.start()
    job.save()
    job.complete()
    job.save()
    job = Job.objects.get(pk=job.pk)
    now = dt.datetime.now(dt.UTC)
    for moment in (job.created_at, job.started_at, job.completed_at, job.updated_at):
        assert near(as_utc(moment), now)
    for entry in job.transitions.all():
        assert near(as_utc(entry.created_at), now)


@pytest.mark.skipif(connection.vendor != "mysql", reason="MariaDB's sessions have a zone")
@pytest.mark.parametrize("zone", ["+08:00", "-05:00", "SYSTEM"])
def test_the_zone_of_the_session_does_not_matter(user, unmeasured, zone):
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@session.time_zone")
        (before,) = cursor.fetchone()
        try:
            cursor.execute("SET time_zone = %s", [zone])
            job = Job.objects.get(pk=make_job(user).pk)
        finally:
            cursor.execute("SET time_zone = %s", [before])
    assert near(as_utc(job.created_at), dt.datetime.now(dt.UTC))


@pytest.mark.skipif(connection.vendor != "postgresql", reason="PostgreSQL's sessions have a zone")
def test_a_long_transaction_has_no_frozen_clock(unmeasured):
    # now() is the start of the transaction there, clock_timestamp() is not.
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(0.3)")
    assert near(as_utc(clock.now()), dt.datetime.now(dt.UTC), seconds=0.2)


def test_the_offset_is_measured_once_a_minute(hour_ahead, later):
    def statements_of_two_looks():
        with Statements() as statements:
            clock.now()
            clock.now()
        return len(statements.sent)

    assert statements_of_two_looks() == 1
    assert statements_of_two_looks() == 0
    later(59)
    assert statements_of_two_looks() == 0
    later(2)
    assert statements_of_two_looks() == 1
    assert statements_of_two_looks() == 0


@pytest.mark.django_db(transaction=True)
def test_the_offset_is_measured_once_for_each_connection(hour_ahead):
    clock.now()
    connection.close()
    connection.connect()
    with Statements() as statements:
        clock.now()
        clock.now()
    assert len(statements.sent) == 1


@pytest.mark.skipif(connection.vendor != "sqlite", reason="SQLite runs in this process")
def test_on_sqlite_nothing_is_measured(unmeasured):
    with Statements() as statements:
        assert clock.offset("default") == dt.timedelta(0)
    assert statements.sent == []


def test_in_a_broken_transaction_the_known_offset_is_good_enough(hour_ahead, later):
    clock.now()
    later(61)
    with transaction.atomic():
        transaction.set_rollback(True)  # as after an error: no statement gets through
        assert near(clock.now(), timezone.now() + HOUR)


def test_while_the_database_cannot_be_asked_the_known_offset_is_good_enough(hour_ahead, later):
    """The outcome of a job is given its time before it is tried to be written."""

    def refuse(*args):
        raise OperationalError("server closed the connection unexpectedly")

    clock.now()
    later(61)
    with connection.execute_wrapper(refuse):
        assert near(clock.now(), timezone.now() + HOUR)


def test_a_database_that_could_never_be_asked_is_an_error(hour_ahead):
    def refuse(*args):
        raise OperationalError("server closed the connection unexpectedly")

    with connection.execute_wrapper(refuse), pytest.raises(OperationalError):
        clock.now()


def test_the_offset_is_measured_to_a_fraction_of_a_second(unmeasured):
    assert abs(clock.offset("default")) < dt.timedelta(seconds=0.2)  # both are on this machine


@pytest.mark.django_db(databases=["default", "other"])
def test_each_database_has_its_own_clock(hour_ahead, monkeypatch):
    monkeypatch.setattr(connections["other"], clock._ATTRIBUTE, (None, 0.0, None), raising=False)
    with Statements("other") as elsewhere, Statements() as here:
        clock.now("other")
    assert (len(elsewhere.sent), len(here.sent)) == (1, 0)


def test_jobs_are_written_where_the_router_says(settings):
    assert clock.alias_for_write() == "default"
    assert clock.alias_for_write("other") == "other"
    settings.DATABASE_ROUTERS = ["tests.routers.JobsElsewhere"]
    assert clock.alias_for_write() == "other"


@pytest.mark.django_db
def test_a_slow_answer_is_asked_again_and_the_fastest_counts(monkeypatch):
    answers = [(3.0, 1_500_000), (0.2, 100_000), (0.4, 200_000), (0.0, 0)]
    monkeypatch.setattr(clock, "_ask", lambda connection: answers.pop(0))
    monkeypatch.setattr(clock, "setattr", lambda *_: None, raising=False)
    assert clock._measure(connection) == 100_000
    assert answers == [(0.0, 0)]  # asked three times
