"""What is true of every job at the end of every case."""

from collections import Counter, defaultdict
from itertools import pairwise

from django.test import Client
from django.urls import reverse

from django_jobs.models import FailureCode, Job, JobTransition, clock
from django_jobs.services.sweeping import settle_all
from django_jobs.states import VALID_TRANSITIONS, is_terminal_state
from tests.api.callers import Caller
from tests.clusters.processes import entries
from tests.conftest import create_user
from tests.stored import row_of

PAGES = 12  # jobs whose pages are looked at

_rows_at_end = {}


def open_books():
    _rows_at_end.clear()


def ended(job):
    """Return a job afresh once it has ended, else ``None``; from then on it must not change."""
    row = row_of(job)
    if not is_terminal_state(row["status"]):
        return None
    _rows_at_end.setdefault(job.pk, row)
    return Job.objects.get(pk=job.pk)


def check_books(notes):
    """After one sweep nothing is unfinished, each row is whole, and its log leads to it."""
    list(settle_all(clock.alias_for_write()))
    rows = {row["id"]: row for row in Job.objects.values()}
    logs = defaultdict(list)
    for entry in JobTransition.objects.order_by("id").values():
        logs[entry["job_id"]].append(entry)
    assert set(logs) == set(rows)
    for key, row in rows.items():
        check_row(row)
        check_log(row, logs[key])
    for key, row in _rows_at_end.items():
        assert rows.get(key, row) == row, "a row changed after its end"
    _check_bodies(notes, rows)
    _check_pages(rows.values())


def check_row(row):
    assert is_terminal_state(row["status"]), row
    assert 0 <= row["progress"] <= 100
    assert row["created_at"] <= (row["started_at"] or row["created_at"]) <= row["completed_at"]
    assert row["attempt"] <= row["max_attempts"]
    assert (row["started_at"] is None) == (row["attempt"] == 0)
    if row["status"] == "failed":
        assert row["error_message"].strip()
        assert row["failure_code"] in FailureCode.values
        assert row["result"] is None
    else:
        assert row["progress"] == 100
    if row["status"] == "completed":
        assert (row["error_message"], row["failure_code"]) == ("", "")


def check_log(row, log):
    """The log replays to the row, by legal steps, with one end."""
    assert (log[0]["from_status"], log[0]["to_status"]) == ("", "queued")
    for earlier, later in pairwise(log):
        step = (later["from_status"], later["to_status"])
        assert step[0] == earlier["to_status"]
        assert step == ("processing", "processing") or step[1] in VALID_TRANSITIONS[step[0]]
    last = log[-1]
    for name in ("attempt", "worker"):
        assert last[name] == row[name]
    assert last["to_status"] == row["status"]
    assert (last["code"], last["message"]) == (row["failure_code"], row["error_message"])
    assert last["created_at"] == row["completed_at"]


def _check_bodies(notes, rows):
    """Each attempt's body was entered once at most, and no more of them than are known."""
    entered = Counter((job, attempt) for job, attempt, _, _ in entries(notes))
    assert set(entered.values()) <= {1}, entered
    attempts = {str(key): row["attempt"] for key, row in rows.items()}
    for job, attempt in entered:
        assert attempt <= attempts.get(job, attempt)


def _check_pages(rows):
    """The API and the admin show one job of each kind."""
    kinds = {(row["job_type"], row["status"], row["failure_code"]): row for row in rows}
    keys = [(row["id"], row["user_id"]) for row in kinds.values()][:PAGES]
    for key, owner in keys:
        check_pages(key, owner)


def check_pages(key, owner):
    """The API's list, detail and log and the admin's list and page of a job are there."""
    staff = create_user(is_staff=True, is_superuser=True)
    caller = Caller(staff)
    for name, argument in (("job-list", None), ("job-detail", key), ("job-transitions", key)):
        assert caller.get(name, argument, user=owner).status_code == 200
    browser = Client()
    browser.force_login(staff)
    for name, arguments in (("changelist", []), ("change", [key])):
        address = reverse(f"admin:django_jobs_job_{name}", args=arguments)
        assert browser.get(address).status_code == 200
