"""Group I, the queue: jobs need no messages, so none can be lost, repeated or unreadable."""

import contextlib
import os
import signal
import sys
import time
import types
from unittest import mock

import pytest
from django.conf import settings
from django.db import OperationalError, connection, transaction
from django.utils import timezone
from django_q.models import OrmQ
from django_q.tasks import async_task

from django_jobs.models import Job, clock
from django_jobs.services import create_job, create_jobs
from tests.api.callers import Caller
from tests.cases.books import ended
from tests.cases.locks import writer_lock
from tests.cases.test_a2_lost_workers import command, kill_all, output_of
from tests.chaos.strikes import only_on
from tests.clusters.processes import Cluster, entries, wait_for
from tests.clusters.test_exactly_once import assert_in_order
from tests.clusters.test_lost_workers import worker_of
from tests.conftest import create_user

pytestmark = pytest.mark.django_db(transaction=True)


@contextlib.contextmanager
def database_away(server):
    """No statement of this process succeeds inside: the server is down, SQLite's lock is taken."""
    connection.close()
    if server is None:
        with writer_lock():
            connection.ensure_connection()
            connection.cursor().execute("PRAGMA busy_timeout = 100")
            yield
        connection.close()
        return
    server.stop()
    try:
        yield
    finally:
        connection.close()
        server.start()


@pytest.mark.smoke
def test_i01_an_order_that_cannot_be_written_is_an_error_and_may_be_repeated(
    server, cluster, user, notes
):
    parameters = {"entries": str(notes)}
    caller = Caller(create_user(is_superuser=True, is_staff=True))
    key = {"Idempotency-Key": "order-1"}
    with cluster() as running:
        before = create_job(user, "note", parameters)
        wait_for(lambda: ended(before))
        with database_away(server):
            with pytest.raises(OperationalError):
                create_job(user, "note", parameters, idempotency_key="order-2")
            with pytest.raises(OperationalError), transaction.atomic():
                create_job(user, "note", parameters)
            answer = caller.order("note", headers=key, parameters=parameters)
            assert answer.status_code == 503
            assert answer.headers["Retry-After"]
        assert Job.objects.count() == 1
        answers = [caller.order("note", headers=key, parameters=parameters) for _ in range(2)]
        assert len({answer.json()["id"] for answer in answers}) == 1
        again = create_job(user, "note", parameters, idempotency_key="order-2")
        for job in (Job.objects.get(pk=answers[0].json()["id"]), again):
            done = wait_for(lambda job=job: ended(job))
            assert done.status == "completed", running.output()


def test_i01_without_the_table_of_the_engine_below_jobs_run_all_the_same(cluster, user, notes):
    table = connection.ops.quote_name(OrmQ._meta.db_table)
    away = connection.ops.quote_name("django_q_away")
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO {away}")
        try:
            with cluster() as running:
                job = create_job(user, "note", {"entries": str(notes)})
                assert wait_for(lambda: ended(job)).status == "completed"
                assert "the broker waits for the database" in running.output()
        finally:
            cursor.execute(f"ALTER TABLE {away} RENAME TO {table}")


@only_on("postgres")
def test_i02_a_notification_that_fails_costs_neither_jobs_nor_hooks(cluster, user, notes):
    """It is all that is sent after a commit; elsewhere there is nothing that could fail."""
    parameters = {"entries": str(notes)}
    called = []

    def hang_up():
        with contextlib.suppress(OperationalError), connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    with cluster() as running:
        with transaction.atomic():
            transaction.on_commit(hang_up)  # before the hook that notifies
            jobs = [create_job(user, "note", parameters) for _ in range(2)]
            transaction.on_commit(lambda: called.append("foreign"))
        assert called == ["foreign"]
        connection.close()
        for job in jobs:
            assert wait_for(lambda job=job: ended(job)).status == "completed", running.output()


@pytest.mark.smoke
def test_i04_a_worker_with_another_secret_key_runs_jobs(cluster, user, notes, tmp_path):
    """Nothing of a job is signed. An ordinary task is: that one is dropped, and said to be."""
    async_task("tests.sample_jobs.job_handlers.ordinary_task", str(tmp_path / "task"))
    job = create_job(user, "note", {"entries": str(notes)})
    other = {"TEST_SECRET_KEY": "rotated"}
    with cluster(cluster={"name": "elsewhere"}, **other) as elsewhere:
        assert wait_for(lambda: ended(job)).status == "completed", elsewhere.output()
    with cluster(name="rotated", **other) as running:
        again = create_job(user, "note", {"entries": str(notes)})
        assert wait_for(lambda: ended(again)).status == "completed", running.output()
        wait_for(lambda: not OrmQ.objects.exists(), what="the ordinary task is dropped")
        assert 'Signature "' in running.output()
    assert not (tmp_path / "task").exists()


@pytest.mark.smoke
def test_i05_unreadable_messages_of_others_block_no_job(cluster, user, notes, tmp_path):
    long_ago = timezone.now() - timezone.timedelta(hours=1)
    garbage = ["garbage", "", "gAJ9.not:signed", "\x01" * 5000]
    for payload in garbage:
        OrmQ.objects.create(key=settings.Q_CLUSTER["name"], payload=payload, lock=long_ago)
    vanished = order_what_vanishes()
    async_task("tests.sample_jobs.job_handlers.ordinary_task", str(tmp_path / "task"))
    jobs = create_jobs(user, "note", [{"entries": str(notes)}] * 3)
    with cluster() as running:
        for job in jobs:
            assert wait_for(lambda job=job: ended(job)).status == "completed", running.output()
        wait_for((tmp_path / "task").exists, what="the good ordinary task ran")
        # it may be readable again after the next deployment: it is kept, and tried again later
        wait_for(lambda: list(OrmQ.objects.values_list("pk", flat=True)) == [vanished])
        assert f"ordinary task {vanished} cannot be read: ModuleNotFoundError" in running.output()
        assert running.output().count("pushing tasks at") == 1, "the pusher died of it"


def order_what_vanishes():
    """Order an ordinary task whose module is gone when it is to run; return the id of its row."""
    module = types.ModuleType("vanished")
    exec("def function(): pass", vars(module))
    with mock.patch.dict(sys.modules, {"vanished": module}):
        async_task(module.function)
    return OrmQ.objects.latest("id").pk


def test_i07_what_waits_longer_than_the_lock_of_messages_runs_once(cluster, user, notes):
    engine = {"queue_limit": 50, "bulk": 10, "retry": 5, "timeout": 3}
    parameters = {"entries": str(notes), "seconds": 0.9}
    jobs = create_jobs(user, "sleeps", [parameters] * 20)
    with cluster(workers=1, cluster=engine) as running:
        for job in jobs:
            assert wait_for(lambda job=job: ended(job), 60).status == "completed", running.output()
    assert [line[0] for line in entries(notes)] == [str(job.pk) for job in jobs]
    times = [line[3] for line in entries(notes)]
    assert times[-1] - times[0] > 2 * engine["retry"]


@pytest.mark.parametrize("way", ["killed", "frozen"])
def test_i08_an_orphan_is_found_by_a_cluster_that_runs_already(
    way, cluster, user, tmp_path, notes, waiting, gate
):
    with Cluster(tmp_path, name="old", workers=1) as old:
        job = create_job(user, "wait", waiting)
        worker_of(job, notes)
        with cluster(name="new", workers=1) as new:
            everyone = [old.process.pid, *(child.pid for child in old.children())]
            struck_at = time.monotonic()
            if way == "killed":
                kill_all(old)
            else:
                freeze_all(everyone)
            lost = wait_for(lambda: ended(job), what="the orphan is found")
            assert lost.failure_code == "worker_lost"
            bound = 6 + 2 * 0.5 + 2  # lease, two sightings two ticks apart, one round of settling
            assert time.monotonic() - struck_at < bound, new.output()
            for pid in everyone if way == "frozen" else ():
                os.kill(pid, signal.SIGCONT)


def freeze_all(pids):
    with transaction.atomic():  # on SQLite nobody is frozen while holding the one lock
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)


def test_i10_a_backlog_is_run_in_order_or_has_waited_too_long_never_both(
    cluster, user, notes, settings
):
    parameters = {"entries": str(notes)}
    usual = settings.DJANGO_JOBS
    settings.DJANGO_JOBS = {**usual, "DEFAULT_QUEUE_TIMEOUT": 0.5}
    late = create_jobs(user, "note", [parameters] * 100)
    settings.DJANGO_JOBS = usual
    good = create_jobs(user, "note", [parameters] * 200)
    wait_for(lambda: clock.now() > max(job.start_deadline_at for job in late))
    with cluster(workers=4) as running:
        sweep = command("settle_jobs")
        meanwhile = create_job(user, "note", parameters)
        output_of(sweep)
        wait_for(lambda: not Job.objects.live().exists(), 60)
        assert ended(meanwhile).status == "completed", running.output()
    for job in late:
        assert ended(job).failure_code == "never_started"
    for job in good:
        assert ended(job).status == "completed"
    entered = [line[0] for line in entries(notes)]
    assert_in_order(entered, [str(job.pk) for job in (*good, meanwhile)])
