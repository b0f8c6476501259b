"""Handlers that do what the cases in ``tests/chaos`` are about."""

import contextlib
import time

from django.db import connection

from django_jobs.handlers import job_handler
from tests.host_jobs.models import Job as HostJob
from tests.sample_jobs.entering import enter


@job_handler("reports-often")
def reports_often(job):
    enter(job)
    for step in range(1, 21):
        job.update_progress(step * 5, f"step {step}")
        time.sleep(0.005)
    return {"steps": 20}


@job_handler("orm-work")
def orm_work(job):
    enter(job)
    HostJob.objects.create(user=job.user, title=str(job.id))
    return {"rows": HostJob.objects.filter(title=str(job.id)).count()}


@job_handler("misuses-its-connection")
def misuses_its_connection(job):
    enter(job)
    connection.ensure_connection()
    MISUSES[job.parameters["way"]]()
    return {"misused": True}


def _lose_it():
    """As when the server ends the session."""
    statement = {
        "postgresql": "SELECT pg_terminate_backend(pg_backend_pid())",
        "mysql": "KILL CONNECTION_ID()",
        "sqlite": "SELECT no_such_function()",
    }[connection.vendor]
    with contextlib.suppress(Exception), connection.cursor() as cursor:
        cursor.execute(statement)


def _break_a_transaction():
    """Begin behind Django's back, and go on after an error."""
    raw = connection.connection.cursor()
    raw.execute("BEGIN")
    with contextlib.suppress(Exception):
        raw.execute("SELECT no_such_column FROM no_such_table")


def _write_and_leave_it_open():
    connection.set_autocommit(False)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE host_jobs_job SET title = 'never committed'")


MISUSES = {
    "lost": _lose_it,
    "closed": lambda: connection.connection.close(),
    "broken": _break_a_transaction,
    "left open": _write_and_leave_it_open,
    "unread": lambda: connection.connection.cursor().execute("SELECT 1"),
}


@job_handler("works-a-while", max_attempts=1)
def works_a_while(job):
    return _work(job)


@job_handler("works-a-while-again", max_attempts=3, retry_delay=0)
def works_a_while_again(job):
    return _work(job)


def _work(job):
    enter(job)
    time.sleep(job.parameters["seconds"])
    return {"attempt": job.attempt}
