"""Jobs for real workers: each notes in a file that its body was entered."""

import hashlib
import os
import re
import time
from pathlib import Path

from django.contrib.auth import get_user_model
from django.db import connection, transaction

from django_jobs.handlers import job_handler
from tests.host_jobs.models import Job as HostJob
from tests.sample_jobs import case_handlers, chaos_handlers  # noqa: F401 - autodiscovery finds this module only
from tests.sample_jobs.entering import enter


@job_handler("noop")
def noop(job):
    return None


@job_handler("note")
def note(job):
    enter(job)
    return {"pid": os.getpid()}


@job_handler("wait", max_attempts=1, timeout=None)
def wait(job):
    """Wait for a file to appear, reporting progress all the while."""
    return _wait(job)


@job_handler("wait-again", max_attempts=2, retry_delay=0)
def wait_again(job):
    if job.attempt > 1:
        enter(job)
        return {"attempt": job.attempt}
    return _wait(job)


def _wait(job):
    enter(job)
    count = 0
    while not Path(job.parameters["until"]).exists():
        count += 1
        job.update_progress(min(90, count / 10))
        time.sleep(0.05)
    for name in job.parameters.get("assets", []):
        job.save_asset(name, b"late", "text")
    return {"waited": True}


@job_handler("stubborn", timeout=1)
def stubborn(job):
    """Swallow every interrupt."""
    enter(job)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            time.sleep(60)
        except BaseException:  # noqa: BLE001 - that is its purpose
            continue


@job_handler("stubborn-for-ever", timeout=None)
def stubborn_for_ever(job):
    return stubborn(job)


@job_handler("slow-python", timeout=1)
def slow_python(job):
    enter(job)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        time.sleep(0.01)


@job_handler("slow-c", timeout=1)
def slow_c(job):
    enter(job)
    hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 400_000_000)


@job_handler("slow-gil", timeout=1)
def slow_gil(job):
    """Backtrack in one call that never lets go of the interpreter's lock."""
    enter(job)
    re.match(r"(a+)+$", "a" * 40 + "b")


@job_handler("slow-sql", timeout=1)
def slow_sql(job):
    enter(job)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT pg_sleep(60)")
        elif connection.vendor == "mysql":
            cursor.execute("SELECT SLEEP(60)")
        else:
            cursor.execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
                "SELECT MAX(i) FROM n"
            )


@job_handler("flaky", max_attempts=3, retry_delay=0)
def flaky(job):
    enter(job)
    if job.attempt < job.parameters.get("succeeds_at", 3):
        raise ValueError(f"attempt {job.attempt} does not work")
    return {"attempt": job.attempt}


@job_handler("in-transaction")
def in_transaction(job):
    """Hold a write transaction open until a file appears; report progress and an asset inside."""
    enter(job)
    with transaction.atomic():
        HostJob.objects.create(user=job.user, title="written by a handler")
        return _hold(job)


@job_handler("locks-user")
def locks_user(job):
    """As ``in-transaction``, but the handler itself locks what the asset refers to."""
    enter(job)
    with transaction.atomic():
        get_user_model().objects.filter(pk=job.user.pk).update(is_active=True)
        return _hold(job)


def _hold(job):
    job.save_asset("inside.txt", b"inside", "text")
    for step in range(1, 10_000):
        job.update_progress(min(90, step))
        if Path(job.parameters["until"]).exists():
            break
        time.sleep(0.05)
    return {"held": True}


@job_handler("chatty")
def chatty(job):
    """Report progress 100,000 times and tell how long that took."""
    enter(job)
    begin = time.thread_time()
    with transaction.atomic():
        for step in range(100_000):
            job.update_progress(step / 1_000)
        spent = time.thread_time() - begin  # its own, whatever else the machine does
        for step in range(3):  # now slowly enough to be seen
            job.update_progress(99.0, f"step {step}")
            time.sleep(1.2)
    return {"seconds": spent}


@job_handler("unstorable")
def unstorable(job):
    enter(job)
    return {"value": object()}


@job_handler("killed", max_attempts=1)
def killed(job):
    enter(job)
    os.kill(os.getpid(), 9)


@job_handler("killed-once", max_attempts=2, retry_delay=0)
def killed_once(job):
    enter(job)
    if job.attempt == 1:
        os.kill(os.getpid(), 9)
    return {"attempt": job.attempt}


def ordinary_task(path):
    """What ``async_task`` runs."""
    Path(path).write_text("done")
