"""What must hold of rows and logs after every step, whoever took it."""

from collections import defaultdict

from django_jobs.models import Job, JobStatus, JobTransition
from django_jobs.models.attempts import NOBODY
from django_jobs.states import TERMINAL_STATES, VALID_TRANSITIONS, FailureCode

UNSEEN = {"due_at"}  # what may change without a new version


class Ledger:
    """The tables as they were at the last look."""

    def __init__(self):
        self.rows, self.logs = {}, {}

    def look(self):
        """Compare the tables with the promises, and with the last look."""
        rows = {row["id"]: row for row in Job.objects.values()}
        logs = defaultdict(list)
        for entry in JobTransition.objects.order_by("id").values():
            logs[entry["job_id"]].append(entry)
        assert set(logs) == set(rows), "a log for each row, a row for each log"
        for key, row in rows.items():
            check_columns(row)
            check_replay(row, logs[key])
            if key in self.rows:
                check_change(self.rows[key], row, self.logs[key], logs[key])
        self.rows, self.logs = rows, logs


def is_open(row):
    """Whether an attempt is open."""
    return row["status"] == JobStatus.PROCESSING and row["worker"] != ""


def is_waiting(row):
    return row["status"] not in TERMINAL_STATES and row["worker"] == ""


def check_columns(row):
    """The relations between the columns of one row."""
    status, is_over = row["status"], row["status"] in TERMINAL_STATES
    assert is_over == (row["completed_at"] is not None) == (row["due_at"] is None), "terminal"
    assert row["attempt"] <= row["max_attempts"], "attempts allowed"
    assert (row["attempt"] > 0) == (row["started_at"] is not None), "started"
    assert 0 <= row["progress"] <= 100
    if status == JobStatus.QUEUED:
        assert (row["worker"], row["attempt"]) == ("", 0), "queued"
    if is_waiting(row):
        assert row["run_deadline_at"] is None, "no run deadline while it waits"
        assert row["start_deadline_at"] >= row["due_at"], "a start deadline while it waits"
    else:
        assert row["worker"] and row["start_deadline_at"] is None, "no start deadline"
        assert is_over or row["worker"] != NOBODY, "nobody runs nothing"
    if status == JobStatus.FAILED:
        assert row["failure_code"] and row["error_message"] and row["result"] is None, "failed"
    elif status == JobStatus.PARTIAL:
        assert row["progress"] == 100 and row["error_message"], "partial"
    elif status == JobStatus.COMPLETED:
        assert row["progress"] == 100, "completed"
        assert not row["failure_code"] and not row["error_message"], "completed"
    else:
        assert not row["failure_code"] and not row["error_message"], "no verdict yet"


def check_change(old, new, old_log, new_log):
    """One row between two looks."""
    assert new_log[: len(old_log)] == old_log, "the log only grows"
    if new["retry_of_id"] is None:  # the job of which it is a retry was deleted
        old = {**old, "retry_of_id": None}
    if old["status"] in TERMINAL_STATES:
        assert new == old, "a terminal row never changes"
    changed = {name for name in new if new[name] != old[name]}
    if changed - UNSEEN:
        assert new["version"] > old["version"], f"{changed} without a new version"
    if len(new_log) == len(old_log):
        assert not changed & {"status", "attempt", "worker"}, "a step that is not in the log"
        assert new["progress"] >= old["progress"], "progress within an attempt"
    assert new["attempt"] >= old["attempt"]


def _is_late_request(status, entry):
    """Whether a request to cancel reached the row while its outcome was being written.

    The outcome has its key, and its place in the log, before it is first tried.
    """
    is_request = entry["to_status"] == "processing" and entry["code"] == FailureCode.CANCELLED
    return status in TERMINAL_STATES and is_request


def check_replay(row, log):
    """The log, read from its beginning, leads to the row by legal steps only."""
    replayed = Replay()
    for entry in log:
        replayed.step(entry)
    for name, value in vars(replayed).items():
        assert row[name] == value, f"{name}: {value!r} by the log, {row[name]!r} in the row"


class Replay:
    """The columns of a row that follow from its log."""

    def __init__(self):
        self.status, self.attempt, self.worker = "", 0, ""
        self.started_at = self.completed_at = None
        self.cancel_requested_at = self.cancel_requested_by_id = None
        self.failure_code = self.error_message = ""

    def step(self, entry):
        source, target = entry["from_status"], entry["to_status"]
        if _is_late_request(self.status, entry):
            return self._request_cancel(entry)
        assert source == self.status, "the steps hang together"
        if source == "":
            assert target == JobStatus.QUEUED
        elif target in TERMINAL_STATES:
            assert target in VALID_TRANSITIONS[source], "a legal step"
            self._end(entry)
        elif source == JobStatus.QUEUED:
            assert target in VALID_TRANSITIONS[source], "a legal step"
            self._withdraw(entry) if entry["worker"] == NOBODY else self._start(entry)
        elif entry["code"] == FailureCode.CANCELLED:
            self._request_cancel(entry)
        elif entry["code"]:
            self._postpone(entry)
        else:
            self._start(entry)
        self.status = target
        return None

    def _start(self, entry):
        assert self.worker == "", "an attempt starts while none is open"
        assert self.cancel_requested_at is None, "no attempt after a request to cancel"
        self.attempt += 1
        self.worker = entry["worker"]
        self.started_at = self.started_at or entry["created_at"]
        assert entry["attempt"] == self.attempt and self.worker, "each attempt is numbered"

    def _withdraw(self, entry):
        assert entry["attempt"] == self.attempt == 0
        self.worker = NOBODY

    def _request_cancel(self, entry):
        assert self.cancel_requested_at is None, "the first request is kept"
        assert (entry["attempt"], entry["worker"]) == (self.attempt, self.worker)
        self.cancel_requested_at = entry["created_at"]
        self.cancel_requested_by_id = entry["actor_id"]

    def _postpone(self, entry):
        self._check_end(entry)
        self.worker = ""

    def _end(self, entry):
        if self.worker in ("", NOBODY):  # between attempts the job is whoever's, by hand
            assert entry["worker"] == NOBODY and entry["attempt"] == self.attempt
            is_failed = entry["to_status"] == JobStatus.FAILED
            assert self.worker == "" or is_failed, "what never started can only fail"
        else:
            self._check_end(entry)
        self.worker = entry["worker"]
        self.completed_at = entry["created_at"]
        self.failure_code, self.error_message = entry["code"], entry["message"]

    def _check_end(self, entry):
        assert self.worker not in ("", NOBODY), "an attempt ends once"
        assert (entry["attempt"], entry["worker"]) == (self.attempt, self.worker), "its own end"
