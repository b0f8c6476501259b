"""Steady work under steady fire, and what must be true of all of it afterwards."""

import contextlib
import datetime as dt
import random
import threading
import time
from collections import Counter

from django.db import InterfaceError, OperationalError, connection

from django_jobs.exceptions import JobsError
from django_jobs.models import Job, JobTransition, clock
from django_jobs.services import cancel_job, create_job
from django_jobs.services.deletion import delete_job
from django_jobs.states import TERMINAL_STATES
from tests.cases.books import check_log, check_row
from tests.chaos.strikes import kill_sessions, restart
from tests.clusters.processes import entries

TYPES = {"works-a-while": 1, "works-a-while-again": 3}  # and how often their bodies may be entered
PER_SECOND = 10
STRIKE_EVERY = 3  # seconds
STUCK_AFTER = 60  # seconds without new orders
LATE = dt.timedelta(
    seconds=15
)  # from the moment of an end to its commit, while sessions are killed
#: At which part of the time the database itself is struck.
RESTARTS, CUTS = (0.2, 0.6), (0.4, 0.8)


class Orders(threading.Thread):
    """Creates jobs steadily, cancels some and deletes some of those that have ended."""

    def __init__(self, user, notes):
        super().__init__(name="orders")
        self.user, self.notes = user, notes
        self.created, self.deleted = {}, set()
        self.cancelled = 0
        self.is_over = threading.Event()
        self.error = None

    def run(self):
        try:
            while not self.is_over.wait(random.uniform(0.5, 1.5) / PER_SECOND):
                self._order_one()
                if random.random() < 0.05:
                    self._cancel_one()
                if random.random() < 0.05:
                    self._delete_one()
        except BaseException as error:
            self.error = error
            raise
        finally:
            connection.close()

    def _order_one(self):
        job_type = random.choice(list(TYPES))
        parameters = {"entries": str(self.notes), "seconds": random.uniform(0.01, 0.5)}
        key = f"order {len(self.created)}"  # so that it can be repeated
        job = insist(
            lambda: create_job(self.user, job_type, parameters, idempotency_key=key),
        )
        self.created[job.pk] = job_type

    def _cancel_one(self):
        victim = random.choice(list(self.created)[-5:])
        with contextlib.suppress(JobsError):
            insist(lambda: cancel_job(victim, actor=self.user, reason="by chance"))
            self.cancelled += 1

    def _delete_one(self):
        ended = insist(lambda: list(Job.objects.terminal().values_list("pk", flat=True)[:50]))
        if ended:
            victim = random.choice(ended)
            self.deleted.add(victim)  # before: the reply may be lost
            with contextlib.suppress(JobsError):
                insist(lambda: delete_job(victim))


class Watch(threading.Thread):
    """Remembers each row as it was when it was first seen to have ended."""

    def __init__(self):
        super().__init__(name="watch")
        self.seen = {}
        self._latest = clock.now()
        self.is_over = threading.Event()

    def run(self):
        while not self.is_over.wait(1):
            insist(self._look)
        connection.close()

    def _look(self):
        since = self._latest - LATE
        for row in Job.objects.terminal().filter(completed_at__gte=since).values():
            self.seen.setdefault(row["id"], row)
            self._latest = max(self._latest, row["completed_at"])


def insist(work):
    """Do it again while the database is away; it must not matter that it is done twice."""
    while True:
        try:
            return work()
        except (OperationalError, InterfaceError):
            connection.close()
            time.sleep(0.2)


def strike_for(seconds, trees, server, strikes):
    """Kill something each few seconds; on a server, strike the database as well."""
    begin = time.monotonic()
    plan = [(part, "database restarted") for part in RESTARTS]
    plan += [(part, "all connections killed") for part in CUTS]
    plan = sorted(plan) if server is not None else []
    while (passed := time.monotonic() - begin) < seconds:
        time.sleep(STRIKE_EVERY)
        if plan and passed >= plan[0][0] * seconds:
            _, what = plan.pop(0)
            strikes[what] += 1
            if what == "database restarted":
                restart(server, crashes=random.random() < 0.5)
            else:
                connection.close()
                kill_sessions(server)
        else:
            random.choice(trees).strike()


def wait_until_all_have_ended():
    """Return how many jobs are stuck."""
    end = time.monotonic() + STUCK_AFTER
    while (live := insist(Job.objects.live().count)) and time.monotonic() < end:
        time.sleep(0.1)
    return live


class Findings:
    """What came of it; ``faults`` must all be 0."""

    def __init__(self, orders, watch, stuck):
        rows = {row["id"]: row for row in Job.objects.filter(pk__in=orders.created).values()}
        entered = Counter((job, attempt) for job, attempt, *_ in entries(orders.notes))
        bodies = Counter(job for job, _ in entered.elements())
        self.orders = orders
        self.broken = [story for story in map(_broken_story, rows.values()) if story]
        self.outcomes = Counter(row["failure_code"] or row["status"] for row in rows.values())
        self.longest = max(
            (row["completed_at"] - row["created_at"]).total_seconds()
            for row in rows.values()
            if row["status"] in TERMINAL_STATES
        )
        self.faults = {
            "jobs lost": len(set(orders.created) - orders.deleted - set(rows)),
            "jobs stuck": stuck,
            "bodies run more often than allowed": sum(
                bodies[str(key)] > TYPES[job_type] for key, job_type in orders.created.items()
            )
            + sum(count > 1 for count in entered.values()),
            "rows or logs that are not whole": len(self.broken),
            "terminal rows changed": sum(
                rows.get(key, row) != row for key, row in watch.seen.items()
            ),
        }

    def lines(self, strikes):
        """The report, for people."""
        orders = self.orders
        yield (
            f"jobs: {len(orders.created)} created, {orders.cancelled} cancelled by chance, "
            f"{len(orders.deleted)} deleted"
        )
        yield f"strikes: {sum(strikes.values())}: {_counted(strikes)}"
        yield f"outcomes: {_counted(self.outcomes)}"
        yield f"longest time to the end: {self.longest:.1f} s"
        yield f"faults: {', '.join(f'{count} {what}' for what, count in self.faults.items())}"
        yield from self.broken


def _broken_story(row):
    """Return row and log of a job if they are not whole, for people; else ''."""
    log = list(JobTransition.objects.filter(job_id=row["id"]).order_by("id").values())
    try:
        check_row(row)
        check_log(row, log)
    except AssertionError as error:
        return f"{error}: {row}, {log}"
    return ""


def _counted(counter):
    return ", ".join(f"{name} {count}" for name, count in counter.most_common())
