"""Handlers that do what the cases in ``tests/cases`` are about."""

import asyncio
import importlib
import os
import resource
import signal
import subprocess
import threading
import time
from pathlib import Path

from django.db import connection, transaction

from django_jobs.execution import Partial
from django_jobs.execution.attempt import SIGNAL
from django_jobs.handlers import job_handler
from django_jobs.models import Job
from django_jobs.services import update_progress
from tests.sample_jobs.entering import enter

if module := os.environ.get("TEST_MISSING_MODULE"):  # in this process the import below fails
    importlib.import_module(module)


def wait_for_gate(job, *, deaf=False):
    """Return when the file of the test is there; ``deaf`` to whatever interrupts the handler."""
    while not Path(job.parameters["until"]).exists():
        try:
            time.sleep(0.02)
        except BaseException:
            if not deaf:
                raise


def tell(job, text):
    """Append a line for the test to read."""
    with Path(job.parameters["told"]).open("a") as file:
        file.write(f"{text}\n")


# -- limits ----------------------------------------------------------------------------------------


@job_handler("sleeps", timeout=1)
def sleeps(job):
    enter(job)
    time.sleep(job.parameters["seconds"])
    return {"slept": job.parameters["seconds"]}


@job_handler("cleans-up-slowly", timeout=1)
def cleans_up_slowly(job):
    enter(job)
    try:
        time.sleep(30)
    finally:
        time.sleep(3)


@job_handler("has-an-alarm-of-its-own", timeout=1)
def has_an_alarm_of_its_own(job):
    enter(job)
    signal.alarm(0)
    signal.signal(signal.SIGALRM, lambda *_: None)
    time.sleep(60)


@job_handler("ignores-our-signal", timeout=1)
def ignores_our_signal(job):
    enter(job)
    signal.signal(SIGNAL, signal.SIG_IGN)
    time.sleep(60)


@job_handler("deadlocks")
def deadlocks(job):
    enter(job)
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


@job_handler("starts-a-program", timeout=1)
def starts_a_program(job):
    """Wait for a program in one of the ways there are; tell the way and its process id."""
    enter(job)
    way, told = job.parameters["way"], job.parameters["told"]
    program = ["sh", "-c", f"echo {way} $$ >> {told}; exec sleep 300"]
    if way == "run":
        subprocess.run(program)
    elif way == "finally":
        process = subprocess.Popen(program)
        try:
            process.wait()
        finally:
            process.kill()
            process.wait()
    elif way == "wait":
        subprocess.Popen(program).wait()
    else:
        with subprocess.Popen(program) as process:
            process.wait()


# -- errors ----------------------------------------------------------------------------------------


class OwnBaseException(BaseException):
    """Of no kind that anybody catches."""


class KeywordOnly(Exception):
    def __init__(self, *, table, row):
        super().__init__(f"row {row} of {table} is bad")
        self.table, self.row = table, row


ERRORS = {
    "KeyboardInterrupt": lambda: KeyboardInterrupt("stop"),
    "CancelledError": lambda: asyncio.CancelledError("stop"),
    "GeneratorExit": lambda: GeneratorExit("stop"),
    "SystemExit": lambda: SystemExit(3),
    "OwnBaseException": lambda: OwnBaseException("stop"),
    "KeywordOnly": lambda: KeywordOnly(table="books", row=7),
    "RuntimeError": lambda: RuntimeError("cannot be pickled", threading.Lock(), lambda: None),
    "ValueError": lambda: ValueError("not one of", KeywordOnly),
}


@job_handler("raises")
def raises(job):
    enter(job)
    raise ERRORS[job.parameters["error"]]()


@job_handler("takes-more")
def takes_more(job, colour):
    enter(job)


@job_handler("tells-a-model")
def tells_a_model(job):
    enter(job)
    job.update_progress(10, job.user)


@job_handler("imports-what-is-not-there")
def imports_what_is_not_there(job):
    enter(job)
    importlib.import_module("no_such_module")


@job_handler("partial")
def partial(job):
    enter(job)
    job.update_progress(40)
    return Partial({"rows": 3}, "One row was bad.")


@job_handler("killed-each-time", max_attempts=2, retry_delay=0)
def killed_each_time(job):
    enter(job)
    os.kill(os.getpid(), signal.SIGKILL)


# -- the database and the row ----------------------------------------------------------------------


@job_handler("loses-its-connection")
def loses_its_connection(job):
    enter(job)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            _quietly(cursor, "SELECT pg_terminate_backend(pg_backend_pid())")
        elif connection.vendor == "mysql":
            _quietly(cursor, "KILL CONNECTION_ID()")
        else:
            connection.connection.close()
    return {"ok": 1}


def _quietly(cursor, statement):
    try:
        cursor.execute(statement)
    except Exception:  # noqa: BLE001 - the server's last words
        return


@job_handler("waits-silently")
def waits_silently(job):
    enter(job)
    wait_for_gate(job)
    return {"ok": 1}


@job_handler("keeps-a-copy")
def keeps_a_copy(job):
    """Report progress beside a copy of the row that is out of date by then."""
    copy = Job.objects.get(pk=job.id)
    enter(job)
    wait_for_gate(job)
    job.update_progress(50, "halfway")
    update_progress(copy.pk, 60)
    copy.refresh_from_db(fields=["priority"])
    return {"priority": copy.priority}


@job_handler("outlives-its-row", timeout=None)
def outlives_its_row(job):
    """Go on after the attempt is over, whatever interrupts it, and tell what came of it."""
    enter(job)
    wait_for_gate(job, deaf=True)
    for name, step in {
        "file": lambda: job.save_asset("late.txt", b"late", "text"),
        "link": lambda: job.link_asset("late", "https://example.org/late", "text"),
        "progress": lambda: job.update_progress(80, "late"),
    }.items():
        try:
            step()
        except BaseException as error:  # noqa: BLE001 - that is its purpose
            tell(job, f"{name} {type(error).__name__}")
        else:
            tell(job, f"{name} taken")
    return {"late": True}


# -- files -----------------------------------------------------------------------------------------


@job_handler("stores-much")
def stores_much(job):
    """Store a file of so many megabytes, made piece by piece; tell the memory that took (bytes)."""
    enter(job)
    before = _peak_memory()
    pieces = (bytes([number % 256]) * (1 << 20) for number in range(job.parameters["megabytes"]))
    asset = job.save_asset("much.bin", pieces, "data")
    return {"size": asset.file_size, "memory": _peak_memory() - before}


def _peak_memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@job_handler("stores")
def stores(job):
    enter(job)
    job.save_asset("report.txt", "hello", "text")


@job_handler("stores-and-goes-on")
def stores_and_goes_on(job):
    """Go on without an asset that cannot be stored; tell why."""
    enter(job)
    try:
        job.save_asset("report.txt", "hello", "text")
    except OSError as error:
        return {"error": str(error)}


@job_handler("stores-in-each-attempt", max_attempts=2, retry_delay=0)
def stores_in_each_attempt(job):
    enter(job)
    job.save_asset("report.txt", f"attempt {job.attempt}", "text")
    if job.attempt == 1:
        raise ValueError("once more")


@job_handler("rolls-back-what-it-stored")
def rolls_back_what_it_stored(job):
    enter(job)
    with transaction.atomic():
        job.save_asset("report.txt", "hello", "text")
        raise ValueError("no good")


@job_handler("is-killed-between-file-and-row")
def is_killed_between_file_and_row(job):
    enter(job)
    job._attempt.attach = lambda asset: os.kill(os.getpid(), signal.SIGKILL)
    job.save_asset("report.txt", "hello", "text")
