"""Group H, databases: they lock, hang up, deadlock and are reached through poolers."""

import contextlib
import datetime as dt
import itertools
import threading

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection, connections, transaction

from django_jobs.models import Job, JobTransition, clock
from django_jobs.services import create_job, create_jobs
from django_jobs.services.pruning import prune_jobs
from django_jobs.testing import make_job
from tests.cases.books import ended
from tests.cases.test_a2_lost_workers import LOST, kill_all
from tests.chaos.strikes import PgBouncer, environment_of, kill_sessions, only_on
from tests.clusters.processes import Cluster, entries, wait_for
from tests.clusters.test_lost_workers import worker_of
from tests.host_jobs.models import Job as HostJob
from tests.mass import multiply

pytestmark = pytest.mark.django_db(transaction=True)
MONTH = dt.timedelta(days=30)
OLD = 50_000  # jobs that retention deletes
WAIT_TIMEOUT = 5  # seconds after which MariaDB ends a session that is silent


@only_on("sqlite")
@pytest.mark.smoke
def test_h01_200_jobs_that_report_beside_a_busy_writer_all_complete(cluster, user, notes):
    is_over = threading.Event()

    def write():  # as the web process of a busy site
        for number in itertools.takewhile(lambda _: not is_over.is_set(), itertools.count()):
            with transaction.atomic():
                HostJob.objects.create(user=user, title=f"page {number}")
        connection.close()

    with cluster(workers=4, TEST_SQLITE_TIMEOUT="5") as running:
        writer = threading.Thread(target=write)
        writer.start()
        try:
            jobs = create_jobs(user, "reports-often", [{"entries": str(notes)}] * 200)
            for job in jobs:
                done = wait_for(lambda job=job: ended(job), 120)
                assert (done.status, done.result) == ("completed", {"steps": 20}), running.output()
        finally:
            is_over.set()
            writer.join()
    assert sorted(line[0] for line in entries(notes)) == sorted(str(job.pk) for job in jobs)


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_h03_the_migrations_apply_and_reverse_from_and_to_nothing(capsys):
    tables = {model._meta.db_table for model in (Job, JobTransition)}
    try:
        call_command("migrate", "django_jobs", "zero", database="other", verbosity=0)
        assert not tables & set(connections["other"].introspection.table_names())
        for direction in ({}, {"backwards": True}):
            call_command("sqlmigrate", "django_jobs", "0001", database="other", **direction)
        assert "TABLE" in capsys.readouterr().out
    finally:
        call_command("migrate", "django_jobs", database="other", verbosity=0)
    assert tables <= set(connections["other"].introspection.table_names())
    call_command("check", "django_jobs", databases=["default", "other"], fail_level="WARNING")


@only_on("postgres", "mariadb")
@pytest.mark.smoke
def test_h04_sessions_that_the_server_ended_in_the_night_cost_no_job(
    server, cluster, user, notes, waiting, gate
):
    patient = {"TEST_CONN_MAX_AGE": "600", "TEST_CONN_HEALTH_CHECKS": "0"}
    with sessions_end_when_silent(server) as end, cluster(workers=2, **patient) as running:
        sleeper = create_job(user, "waits-silently", waiting)
        first = create_job(user, "note", {"entries": str(notes)})
        for job in (sleeper, first):
            worker_of(job, notes)
        wait_for(lambda: ended(first))
        end()  # those of the idle worker and of the handler that does nothing
        morning = create_job(user, "orm-work", {"entries": str(notes)})
        gate.touch()
        for job in (sleeper, morning):
            assert wait_for(lambda job=job: ended(job)).status == "completed", running.output()
        assert ended(sleeper).result == {"ok": 1}
        assert worker_of(morning, notes) in running.worker_pids()
        assert "reincarnated" not in running.output()


@contextlib.contextmanager
def sessions_end_when_silent(server):
    """Give a function that returns when the server has ended silent sessions, our own among them.

    PostgreSQL ends none by itself: there it ends those that there are.
    """
    if settings.DATABASE == "postgres":
        yield lambda: (connection.close(), kill_sessions(server))
        return
    connection.close()
    with contextlib.closing(server.connect()) as watcher, watcher.cursor() as cursor:
        cursor.execute("SET GLOBAL wait_timeout = %s", [WAIT_TIMEOUT])
        usual = _aborted(cursor)

        def end():
            connection.close()
            wait_for(lambda: _aborted(cursor) >= usual + 2, what="two sessions were ended")

        try:
            yield end
        finally:
            cursor.execute("SET GLOBAL wait_timeout = 28800")


def _aborted(cursor):
    cursor.execute("SHOW GLOBAL STATUS LIKE 'Aborted_clients'")
    return int(cursor.fetchone()[1])


def test_h06_a_long_job_holds_no_transaction_open(server, cluster, user, notes, waiting, gate):
    table = connection.ops.quote_name(Job._meta.db_table)
    with cluster(workers=1):
        job = create_job(user, "waits-silently", waiting)
        worker_of(job, notes)
        with connection.cursor() as cursor:
            limit = {
                "postgresql": "SET lock_timeout = '2s'",
                "mysql": "SET lock_wait_timeout = 2",
                "sqlite": "PRAGMA busy_timeout = 2000",
            }
            cursor.execute(limit[connection.vendor])
            cursor.execute(f"ALTER TABLE {table} ADD COLUMN remark varchar(10) NULL")
            cursor.execute(f"ALTER TABLE {table} DROP COLUMN remark")
        if connection.vendor != "sqlite":
            assert idle_transactions() == 0
        connection.close()
        gate.touch()
        assert wait_for(lambda: ended(job)).status == "completed"


def idle_transactions():
    query = {
        "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in trans%'",
        "mysql": (
            "SELECT count(*) FROM information_schema.innodb_trx "
            "WHERE trx_started < now() - INTERVAL 1 SECOND"
        ),
    }
    with connection.cursor() as cursor:
        cursor.execute(query[connection.vendor])
        return cursor.fetchone()[0]


@pytest.mark.parametrize("way", ["lost", "closed", "broken", "left open", "unread"])
def test_h07_what_a_job_does_to_its_connection_is_no_concern_of_the_next(way, cluster, user, notes):
    parameters = {"entries": str(notes)}
    with cluster(workers=1) as running:
        first = create_job(user, "misuses-its-connection", {**parameters, "way": way})
        others = create_jobs(user, "orm-work", [parameters] * 4)
        assert wait_for(lambda: ended(first)).is_terminal
        for job in others:
            done = wait_for(lambda job=job: ended(job))
            assert (done.status, done.result) == ("completed", {"rows": 1}), running.output()
    assert len({line[2] for line in entries(notes)}) == 1  # the one worker lives on
    assert not HostJob.objects.filter(title="never committed").exists()


@only_on("postgres", "mariadb")
def test_h09_retention_in_a_loop_costs_no_outcome(cluster, user, notes):
    job = make_job(user, "failed")
    Job.objects.update(completed_at=clock.now() - 2 * MONTH)
    multiply(job, OLD - 1)
    parameters = {"entries": str(notes)}
    with cluster(workers=4) as running:
        jobs = create_jobs(user, "orm-work", [parameters] * 500)
        pruned = 0
        while pruned < OLD:
            pruned += prune_jobs(MONTH).jobs
        for job in jobs:
            done = wait_for(lambda job=job: ended(job), 120)
            assert (done.status, done.result) == ("completed", {"rows": 1}), running.output()
    assert pruned == OLD
    assert Job.objects.count() == 500 + 1  # and a trivial one


@only_on("postgres")
@pytest.mark.smoke
def test_h10_through_a_pooler_in_transaction_mode_all_is_as_without(
    server, cluster, user, tmp_path, notes, waiting
):
    with PgBouncer(server) as pooler:
        through = environment_of(pooler.url)
        _each_of_200_runs_once(cluster, user, tmp_path, notes, through)
        _killed_workers_cost_what_they_hold(cluster, user, tmp_path, notes, waiting, through)


def _each_of_200_runs_once(cluster, user, tmp_path, notes, through):
    with (
        Cluster(tmp_path, name="pooled", workers=2, **through),
        cluster(workers=2, name="also pooled", **through) as running,
    ):
        wait_for(lambda: "a pooler in transaction mode?" in running.output())
        jobs = create_jobs(user, "note", [{"entries": str(notes)}] * 200)
        wait_for(lambda: not Job.objects.live().exists(), 60)
    assert sorted(line[0] for line in entries(notes)) == sorted(str(job.pk) for job in jobs)
    assert Job.objects.filter(status="completed").count() == 200 + 1  # and a trivial one
    assert len({line[2] for line in entries(notes)}) == 4  # the work was shared


def _killed_workers_cost_what_they_hold(cluster, user, tmp_path, notes, waiting, through):
    with Cluster(tmp_path, name="killed", workers=2, **through) as killed:
        lost = create_job(user, "wait", waiting)
        repeated = create_job(user, "wait-again", waiting)
        for job in (lost, repeated):
            worker_of(job, notes)
        kill_all(killed)
    with cluster(workers=2, name="next", **through):
        assert wait_for(lambda: ended(lost)).error_message == LOST
        done = wait_for(lambda: ended(repeated))
        assert (done.status, done.attempt) == ("completed", 2)
