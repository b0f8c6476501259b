"""Group A, errors: whatever is raised before, in, around and after a body ends the job."""

import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from django.conf import settings as django_settings
from django.core.management import call_command

from django_jobs.models import Job, clock
from django_jobs.services import create_job
from tests.cases.books import check_pages, ended
from tests.cases.locks import writer_lock
from tests.cases.proxy import Proxy
from tests.clusters.processes import ROOT, entries, environment, is_sqlite, wait_for
from tests.clusters.test_lost_workers import worker_of

pytestmark = pytest.mark.django_db(transaction=True)

OUTAGE = 4.5  # seconds: longer than the lease of the cluster that suffers it


def failures(user, types, notes, **parameters):
    """Order jobs that fail, wait for all, return them."""
    jobs = [
        create_job(user, name, {"entries": str(notes), **own, **parameters}) for name, own in types
    ]
    ends = [wait_for(lambda job=job: ended(job)) for job in jobs]
    assert {(end.status, end.failure_code) for end in ends} == {("failed", "handler_error")}
    return ends


def test_a07_an_error_that_is_no_exception_fails_its_job_by_name(cluster, user, notes):
    names = ["KeyboardInterrupt", "CancelledError", "GeneratorExit", "SystemExit"]
    names.append("OwnBaseException")
    with cluster(workers=1) as running:
        pids = running.worker_pids()
        ends = failures(user, [("raises", {"error": name}) for name in names], notes)
        assert running.worker_pids() == pids  # one worker ran them all, and lives
    for name, end in zip(names, ends, strict=True):
        assert name in end.error_message
    assert sorted(line[0] for line in entries(notes)) == sorted(str(end.pk) for end in ends)


def test_a08_an_error_that_cannot_be_pickled_fails_its_job_in_readable_words(cluster, user, notes):
    expected = {
        "KeywordOnly": "row 7 of books is bad",
        "RuntimeError": "cannot be pickled",
        "ValueError": "not one of",
    }
    with cluster(workers=1):
        ends = failures(user, [("raises", {"error": name}) for name in expected], notes)
    for (name, text), end in zip(expected.items(), ends, strict=True):
        assert end.error_message.startswith(f"{name}: ")
        assert text in end.error_message
        assert name in end.transitions.order_by("id").last().detail
        check_pages(end.pk, end.user_id)


def test_a10_an_error_around_the_body_fails_the_job_and_names_the_cause(cluster, user, notes):
    causes = {
        "takes-more": "missing 1 required positional argument: 'colour'",
        "tells-a-model": "the progress message must be a text, not",
        "imports-what-is-not-there": "ModuleNotFoundError: No module named 'no_such_module'",
    }
    with cluster(workers=1):
        ends = failures(user, [(name, {}) for name in causes], notes)
    for cause, end in zip(causes.values(), ends, strict=True):
        assert cause in end.error_message


def test_a10_a_module_of_handlers_that_fails_in_the_worker_stops_it_loudly(user, notes, settings):
    settings.DJANGO_JOBS = {**settings.DJANGO_JOBS, "DEFAULT_QUEUE_TIMEOUT": 0.2}
    job = create_job(user, "note", {"entries": str(notes)})
    worker = subprocess.run(
        [sys.executable, "-m", "django", "qcluster"],
        cwd=ROOT,
        env=environment(TEST_MISSING_MODULE="no_such_module"),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert worker.returncode != 0
    assert "No module named 'no_such_module'" in worker.stderr
    wait_for(lambda: clock.now() > job.start_deadline_at)
    call_command("settle_jobs", verbosity=0)
    assert ended(job).failure_code == "never_started"


def test_a11_a_handler_that_loses_the_connection_completes_with_its_result(cluster, user, notes):
    with cluster(workers=1) as running:
        job = create_job(user, "loses-its-connection", {"entries": str(notes)})
        done = wait_for(lambda: ended(job))
        assert (done.status, done.result) == ("completed", {"ok": 1}), running.output()
        following = create_job(user, "note", {"entries": str(notes)})
        wait_for(lambda: ended(following))
    (_, _, first, _), (_, _, second, _) = entries(notes)
    assert first == second  # the worker lives on


def test_a11_an_outage_of_the_database_around_the_return_costs_no_result(
    cluster, user, notes, waiting, gate
):
    jobs = {"TICK": 0.5, "LEASE": 3}
    with (
        outage_on_demand() as (begin, end, surroundings),
        cluster(workers=1, jobs=jobs, **surroundings) as running,
    ):
        job = create_job(user, "waits-silently", waiting)
        pid = worker_of(job, notes)
        begin()
        gate.touch()
        time.sleep(OUTAGE)
        assert Job.objects.get(pk=job.pk).status == "processing"
        end()
        done = wait_for(lambda: ended(job))
        assert (done.status, done.result) == ("completed", {"ok": 1}), running.output()
        following = create_job(user, "note", {"entries": str(notes)})
        assert wait_for(lambda: ended(following)).status == "completed"
        assert entries(notes)[-1][2] == pid
        assert pid in running.worker_pids()


@contextmanager
def outage_on_demand():
    """Give functions that begin and end an outage for processes with these surroundings.

    Servers cannot be reached. On SQLite, which has no server, nobody else can write.
    """
    if django_settings.DATABASE in Proxy.VARIABLES:
        proxy = Proxy()
        try:
            yield proxy.cut, proxy.mend, proxy.environment
        finally:
            proxy.cut()
    else:
        assert is_sqlite()
        lock = writer_lock()
        yield lock.__enter__, lambda: lock.__exit__(None, None, None), {}
