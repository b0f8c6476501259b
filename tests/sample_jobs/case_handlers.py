"""Handlers that do what the cases in ``tests/cases`` are about."""

import asyncio
import contextlib
import dataclasses
import datetime as dt
import decimal
import enum
import functools
import importlib
import itertools
import math
import os
import resource
import signal
import subprocess
import threading
import time
import uuid
from pathlib import Path

from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.utils.translation import gettext_lazy

from django_jobs.exceptions import JobFailed
from django_jobs.execution import Partial
from django_jobs.execution.attempt import SIGNAL
from django_jobs.handlers import job_handler
from django_jobs.models import Job
from django_jobs.services import update_progress
from tests.host_jobs.models import Job as HostJob
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


# -- results and texts -----------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int


class Array:
    """As an array of a numerical library: it says how it is converted, but not to JSON."""

    def __array__(self):
        return [1, 2]

    def tolist(self):
        return [1, 2]


MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)
RESULTS = {
    "nul": lambda: {"t": "a\x00b"},
    "surrogate": lambda: {"t": ["a", "\ud800"]},
    "datetime": lambda: {"v": MOMENT},
    "date": lambda: {"v": MOMENT.date()},
    "time": lambda: {"v": dt.time(1, 2, 3, 4)},
    "timedelta": lambda: {"v": dt.timedelta(days=1, microseconds=5)},
    "decimal": lambda: {"v": decimal.Decimal("1.50")},
    "uuid": lambda: {"v": uuid.UUID(int=7)},
    "tuple": lambda: {"v": (1, (2, 3))},
    "enum": lambda: {"v": Colour.RED},
    "set": lambda: {"rows": [{"v": 1}, {"v": {1, 2}}]},
    "bytes": lambda: {"rows": [{"v": 1}, {"v": b"x"}]},
    "path": lambda: {"rows": [{"v": 1}, {"v": Path("x")}]},
    "dataclass": lambda: {"rows": [{"v": 1}, {"v": Point(1)}]},
    "model": lambda: {"rows": [{"v": 1}, {"v": Job()}]},
    "queryset": lambda: {"rows": [{"v": 1}, {"v": Job.objects.all()}]},
    "array": lambda: {"rows": [{"v": 1}, {"v": Array()}]},
    "nan": lambda: {"rows": [{"v": 1}, {"v": math.nan}]},
    "lazy": lambda: {"m": gettext_lazy("Yes")},
    "huge integer": lambda: {"n": 10**5000},
    "20 MB": lambda: {"text": "x" * 20_000_000},
    "none": lambda: None,
    "object": lambda: {},
    "empty": lambda: "",
    "zero": lambda: 0,
    "false": lambda: False,
}


@job_handler("returns")
def returns(job):
    enter(job)
    return RESULTS[job.parameters["what"]]()


@job_handler("echoes")
def echoes(job):
    enter(job)
    return {name: job.parameters[name] for name in job.parameters if name != "entries"}


@job_handler("tells-a-nul")
def tells_a_nul(job):
    enter(job)
    job.update_progress(50, "half\x00way")
    raise JobFailed("stop")


ERRORS |= {
    "nul": lambda: ValueError("x\x00y"),
    "lazy": lambda: ValidationError(gettext_lazy("No")),
    "fields": lambda: ValidationError({"size": [gettext_lazy("No"), "Too large."]}),
    "5 MB": lambda: ValueError("é" * 5_000_000),
}


@job_handler("leaks")
def leaks(job):
    enter(job)
    address = "postgres://me:hunter2@host"
    raise OSError(f"no /srv/private/rows.csv at {address}, password=hunter2, retry")


# -- kinds of handlers -----------------------------------------------------------------------------


@job_handler("async")
async def is_async(job):
    await asyncio.sleep(0)
    enter(job)
    return {"ran": True}


def _runs(job, marks):
    enter(job)
    return {"ran": marks}


class Runner:
    def __call__(self, job):
        return _runs(job, True)

    def method(self, job):
        return _runs(job, True)


job_handler("partial-function")(functools.partial(_runs, marks=True))
job_handler("callable-object")(Runner())
job_handler("method")(Runner().method)


# -- progress --------------------------------------------------------------------------------------


@job_handler("steps")
def steps(job):
    """Report 10, 20, … 90 and tell when; if asked to, in a transaction that is rolled back."""
    enter(job)
    with transaction.atomic() if job.parameters["atomic"] else contextlib.nullcontext():
        if job.parameters["atomic"]:
            HostJob.objects.create(user=job.user, title="written by a handler")
        for percent in range(10, 100, 10):
            job.update_progress(percent)
            tell(job, f"{percent} {time.time()}")
            time.sleep(0.37)
        wait_for_gate(job)
        if job.parameters["atomic"]:
            raise RuntimeError("rolled back")


@job_handler("reports-from-threads")
def reports_from_threads(job):
    """8 threads that count 400 items together, to 80 %."""
    enter(job)
    counter = itertools.count(1)

    def work():
        for _ in range(50):
            number = next(counter)
            with job.item(number):
                time.sleep(0.01)
            job.update_progress(number / 5)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    raise JobFailed("counted")


@job_handler("leaves-a-thread")
def leaves_a_thread(job):
    """A thread goes on to report when the handler has returned, and tells what came of it."""
    enter(job)

    def work():
        end = time.monotonic() + 3
        outcomes = set()
        while time.monotonic() < end:
            for percent in range(10, 100, 10):
                try:
                    job.update_progress(percent, "late")
                    outcomes.add("taken")
                except BaseException as error:  # noqa: BLE001 - it is told
                    outcomes.add(type(error).__name__)
            time.sleep(0.05)
        tell(job, " ".join(sorted(outcomes)))

    threading.Thread(target=work, daemon=True).start()
    return {"ok": 1}


@job_handler("reports-and-waits", timeout=None)
def reports_and_waits(job):
    enter(job)
    while not Path(job.parameters["until"]).exists():
        job.update_progress(5, f"at {time.monotonic()}")
        time.sleep(0.05)


@job_handler("stops-at-97")
def stops_at_97(job):
    enter(job)
    job.update_progress(97)
    if job.parameters["end"] == "raise":
        raise ValueError("out of paper")
    return Partial({"rows": 3}, "One was bad.") if job.parameters["end"] == "partial" else None


@job_handler("half-fail", retry_failed_items=True)
def half_fail(job):
    """Every other one of "count" items fails at first; none of a retry does."""
    enter(job)
    names = job.failed_items
    if names is None:
        names = [f"item {number}" for number in range(job.parameters["count"])]
    for number, name in enumerate(names):
        with job.item(name):
            if number % 2 and job.failed_items is None:
                raise ValueError("odd")
    return {"names": names}
