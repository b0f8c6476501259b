"""The keeper: leases, interrupts, and whom they may hit."""

import threading
import time

import pytest
from django.db import OperationalError, connection

from django_jobs.exceptions import AttemptLost, JobTimedOut
from django_jobs.execution import watchdog
from django_jobs.execution.attempt import KeptAttempt, Phase, interruptible
from django_jobs.execution.keeper import Keeper
from django_jobs.models import Job, JobStatus
from django_jobs.testing import make_job

pytestmark = pytest.mark.django_db(transaction=True)
WORKER = "host/machine/1/2/abcd"


@pytest.fixture(autouse=True)
def for_workers(settings):
    settings.DJANGO_JOBS = {"ENGINE": "django_q", "TICK": 1, "LEASE": 10, "GRACE": 1}


@pytest.fixture
def keeper():
    return Keeper("default")


@pytest.fixture
def attempt(user, keeper):
    job = make_job(user, JobStatus.PROCESSING, worker=WORKER, max_attempts=2)
    attempt = KeptAttempt(job, "default", keeper.call)
    keeper.attend(attempt)
    yield attempt
    keeper.end_drain()  # disarms the watchdog: it would end the tests


def row(attempt):
    return Job.objects.get(pk=attempt.fence.job_id)


def interrupted(attempt, reason):
    """Let another thread interrupt the body, and return what the body was hit by."""
    thread = threading.Thread(target=attempt.interrupt, args=[reason])
    try:
        with interruptible(attempt), attempt.body():
            thread.start()
            thread.join()
            threading.Event().wait(5)
    except BaseException as error:  # noqa: BLE001 - it is what the test is about
        return error
    return None


def test_an_interrupt_reaches_the_running_body(attempt):
    reason = JobTimedOut("too long")
    assert interrupted(attempt, reason) is reason
    assert attempt.phase is Phase.OUTCOME


def test_h9_an_interrupt_after_the_body_hits_nothing(attempt):
    with interruptible(attempt):
        with attempt.body():
            pass
        attempt.interrupt(JobTimedOut("too late"))
        threading.Event().wait(0.05)
    assert attempt.interrupted_by is None


def test_h9_an_interrupt_meant_for_one_attempt_never_hits_the_next(attempt, user, keeper):
    other = KeptAttempt(make_job(user, JobStatus.PROCESSING, worker=WORKER), "default", keeper.call)
    with interruptible(other), other.body():
        attempt.interrupt(JobTimedOut("meant for the other one"))
        threading.Event().wait(0.05)
    assert other.interrupted_by is None


def test_a_body_is_interrupted_once(attempt):
    hits = 0
    with interruptible(attempt), attempt.body():
        for _ in range(3):
            try:
                attempt.interrupt(JobTimedOut("again"))
                threading.Event().wait(0.05)
            except JobTimedOut:
                hits += 1
    assert hits == 1


def test_a_due_renewal_moves_the_lease_and_nothing_that_is_seen(attempt, keeper):
    before = row(attempt)
    attempt.renewed_at -= 2
    attempt.lease = 90
    keeper._write(attempt, time.monotonic())
    after = row(attempt)
    assert after.due_at > before.due_at
    assert (after.version, after.updated_at) == (before.version, before.updated_at)


def test_progress_is_written_with_the_renewal(attempt, keeper):
    for percent in range(50):
        attempt.report(percent, f"step {percent}", attempt.reports.items)
    before = row(attempt)
    keeper._write(attempt, time.monotonic())
    after = row(attempt)
    assert (after.progress, after.progress_message) == (49, "step 49")
    assert after.version == before.version + 1
    assert not attempt.is_dirty


def test_a_report_is_written_within_a_second_of_it(keeper, attempt):
    """A beat before the job is half a beat old writes nothing; the next look must not be far."""
    keeper._attempt = attempt
    begun_at = time.monotonic() - 0.3
    attempt.begun_at = attempt.renewed_at = begun_at
    attempt.report(40, None, attempt.reports.items)
    keeper._beat(attempt)
    assert row(attempt).progress == 0

    latest = time.monotonic() + keeper._time_to_next_look()
    assert latest <= begun_at + 0.6
    attempt.begun_at -= 0.6
    assert keeper._time_to_next_look() < 1
    keeper._beat(attempt)
    assert row(attempt).progress == 40


def test_h1_a_renewal_of_an_ended_attempt_changes_nothing_and_interrupts(attempt, keeper):
    job = row(attempt)
    job.postpone(delay=60, code="worker_lost", message="written off")
    job.save()
    before = Job.objects.filter(pk=job.pk).values().get()
    attempt.renewed_at -= 2
    attempt.begun_at -= 2
    hit = []

    def beat():
        keeper._beat(attempt)
        connection.close()

    try:
        with interruptible(attempt), attempt.body():
            thread = threading.Thread(target=beat)
            thread.start()
            thread.join()
            threading.Event().wait(5)
    except AttemptLost as error:
        hit.append(error)
    assert hit
    assert attempt.is_over
    assert Job.objects.filter(pk=job.pk).values().get() == before


def _failing(keeper, attempt, monkeypatch, error):
    def fail(*args):
        raise error

    monkeypatch.setattr(keeper, "_write", fail)
    attempt.begun_at -= 60
    attempt.renewed_at -= 9  # of a lease of 10, with a tick of 1
    attempt.phase = Phase.BODY
    monkeypatch.setattr("django_jobs.execution.keeper.watchdog.arm", lambda seconds: None)
    monkeypatch.setattr("django_jobs.execution.attempt.signal.pthread_kill", lambda *args: None)
    keeper._beat(attempt)
    return attempt.interrupted_by


def test_an_attempt_that_may_be_repeated_gives_up_before_its_lease_ends(
    keeper, attempt, monkeypatch
):
    error = OperationalError("server closed the connection")
    assert isinstance(_failing(keeper, attempt, monkeypatch, error), AttemptLost)


def test_the_last_attempt_goes_on_without_the_database(keeper, attempt, monkeypatch):
    attempt.is_last = True
    error = OperationalError("server closed the connection")
    assert _failing(keeper, attempt, monkeypatch, error) is None


def test_a_wait_for_a_lock_is_a_sign_of_life(keeper, attempt, monkeypatch):
    assert _failing(keeper, attempt, monkeypatch, OperationalError("database is locked")) is None


@pytest.mark.parametrize(
    ("is_last", "timeout", "expected"),
    [
        (True, None, None),  # nobody can start another attempt, and there is no limit
        (True, 100, 100 + 1 + 3),  # limit, grace, margin
        (False, None, 10 - 0.6),  # before another attempt can start
        (False, 2, 2 + 1 + 3),
    ],
)
def test_the_watchdog_is_armed_for_the_first_limit(
    is_last, timeout, expected, keeper, attempt, monkeypatch
):
    armed = []
    monkeypatch.setattr("django_jobs.execution.keeper.watchdog.arm", armed.append)
    attempt.is_last = is_last
    attempt.deadline = None if timeout is None else attempt.begun_at + timeout
    attempt.phase = Phase.BODY
    keeper._rearm_watchdog(attempt)
    if expected is None:
        assert armed == []
    else:
        assert armed[0] == pytest.approx(expected, abs=0.5)


def test_no_watchdog_is_armed_for_an_attempt_that_is_no_longer_attended(
    keeper, attempt, monkeypatch
):
    armed = []
    monkeypatch.setattr("django_jobs.execution.keeper.watchdog.arm", armed.append)
    attempt.phase = Phase.BODY
    keeper.end_drain()
    keeper._rearm_watchdog(attempt)
    assert armed == []


def test_while_the_outcome_is_written_no_watchdog_is_armed(keeper, attempt, monkeypatch):
    armed = []
    monkeypatch.setattr("django_jobs.execution.keeper.watchdog.arm", armed.append)
    attempt.phase = Phase.OUTCOME
    keeper._rearm_watchdog(attempt)
    assert armed == []


def test_h10_the_watchdog_is_armed_before_the_body_begins(keeper, attempt, monkeypatch):
    """The keeper's thread may never run: the body's first line can hold the interpreter's lock."""
    armed = []
    monkeypatch.setattr(watchdog, "arm", armed.append)
    keeper.attend(attempt)
    assert len(armed) == 1
