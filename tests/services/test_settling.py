"""What settlers end, what they put back, and what they leave alone."""

import datetime as dt
import threading

import pytest
from django.db import OperationalError, connection, transaction

from django_jobs.conf import conf
from django_jobs.exceptions import StaleJob
from django_jobs.models import FailureCode, Job, JobStatus, clock, persistence
from django_jobs.services import cancel_job, create_job
from django_jobs.services.identity import machine_prefix, worker_name
from django_jobs.services.settling import Sightings, settle
from django_jobs.testing import make_job

pytestmark = pytest.mark.django_db(transaction=True)
ELSEWHERE = "other/machine/17/4711/abcd"
HOUR = dt.timedelta(hours=1)


@pytest.fixture(autouse=True)
def quick_sightings(settings):
    settings.DJANGO_JOBS = {"ENGINE": "django_q", "TICK": 0.01}


@pytest.fixture
def run(handler):
    """Return a job that a worker elsewhere runs, its lease lapsed by ``lapsed``."""

    def make(user, *, lapsed=HOUR, worker=ELSEWHERE, **fields):
        job = make_job(user, JobStatus.PROCESSING, worker=worker, **fields)
        Job.objects.filter(pk=job.pk).update(due_at=clock.now() - lapsed)
        job.refresh_from_db()
        return job

    return make


def settle_twice():
    """Two rounds, as far apart as two sightings must be."""
    sightings = Sightings()
    first = settle("default", sightings)
    threading.Event().wait(2 * conf.TICK)  # the rule itself is about time
    return first + settle("default", sightings)


def fresh(job):
    return Job.objects.get(pk=job.pk)


def test_a_lapsed_job_without_attempts_left_ends_worker_lost_at_the_second_sighting(user, run):
    job = run(user)
    sightings = Sightings()
    assert settle("default", sightings) == []
    assert fresh(job).status == "processing"
    (settled,) = settle_twice()
    assert settled.pk == job.pk
    lost = fresh(job)
    assert (lost.status, lost.failure_code) == ("failed", FailureCode.WORKER_LOST)
    assert "was not heard of" in lost.error_message


def test_h2_a_lapsed_job_with_attempts_left_waits_for_its_next_attempt(user, run):
    job = run(user, max_attempts=2)
    settle_twice()
    waiting = fresh(job)
    assert (waiting.status, waiting.worker, waiting.attempt) == ("processing", "", 1)
    assert waiting.due_at > clock.now() - dt.timedelta(seconds=1)
    assert waiting.start_deadline_at > waiting.due_at
    last = job.transitions.order_by("id").last()
    assert (last.from_status, last.to_status, last.code) == (
        "processing",
        "processing",
        FailureCode.WORKER_LOST,
    )


def test_h2_what_nobody_takes_up_between_attempts_ends(user, run):
    job = run(user, max_attempts=2)
    settle_twice()
    Job.objects.filter(pk=job.pk).update(
        due_at=clock.now() - 2 * HOUR, start_deadline_at=clock.now() - HOUR
    )
    settle("default", Sightings())
    lost = fresh(job)
    assert (lost.status, lost.failure_code) == ("failed", FailureCode.WORKER_LOST)
    assert lost.error_message == "No worker took up attempt 2 of 2 within 1 h."


def test_h5_a_lease_renewed_after_the_settler_read_the_row_saves_the_job(user, run):
    job = run(user)
    read = fresh(job)
    Job.objects.filter(pk=job.pk).update(due_at=clock.now() + HOUR)  # the keeper renews
    read.fail("lost", FailureCode.WORKER_LOST)
    with pytest.raises(StaleJob):
        persistence.update(read, "default", guard=persistence.DECISION)
    assert fresh(job).status == "processing"


def test_h7_an_error_between_two_sightings_makes_the_first_one_void(user, run, monkeypatch):
    job = run(user)
    sightings = Sightings()
    settle("default", sightings)
    sightings.clear()  # what an error of the database does, see below
    assert settle("default", sightings) == []
    assert fresh(job).status == "processing"


def test_h7_a_database_error_clears_the_sightings(user, run, monkeypatch):
    run(user)
    sightings = Sightings()
    settle("default", sightings)
    assert sightings.seconds_to_confirm() > 0

    def broken(*args):
        raise OperationalError("the database is away")

    monkeypatch.setattr("django_jobs.services.settling._settle_one", broken)
    monkeypatch.setattr(Sightings, "is_too_fresh", lambda self, *row: False)
    with pytest.raises(OperationalError):
        settle("default", sightings)
    assert sightings._first_seen == {}


def test_h6_a_locked_row_counts_as_alive(user, run):
    if not connection.features.has_select_for_update_skip_locked:
        # SQLite has one lock for all: whoever holds it keeps every settler out
        return _assert_a_writer_keeps_settlers_out(user, run)
    job = run(user)
    sightings = Sightings()
    settle("default", sightings)
    locked, release = threading.Event(), threading.Event()

    def hold():
        with transaction.atomic():
            Job.objects.select_for_update().get(pk=job.pk)
            locked.set()
            release.wait(20)
        connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    locked.wait(20)
    threading.Event().wait(sightings.seconds_to_confirm())
    assert settle("default", sightings) == []
    release.set()
    thread.join()
    assert settle("default", sightings) == []  # the earlier sighting was forgotten
    assert fresh(job).status == "processing"


def _assert_a_writer_keeps_settlers_out(user, run):
    job = run(user)
    sightings = Sightings()
    settle("default", sightings)
    locked, release = threading.Event(), threading.Event()

    def hold():
        with transaction.atomic():
            locked.set()
            release.wait(0.5)  # longer than a settler's patience
        connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    locked.wait(20)
    threading.Event().wait(sightings.seconds_to_confirm())
    assert settle("default", sightings) == []
    thread.join()
    assert sightings._first_seen == {}
    assert fresh(job).status == "processing"


def test_a_worker_of_this_machine_whose_process_is_gone_needs_no_lapse(user, run):
    dead = f"{machine_prefix()}{2**22 + 1}/1/abcd"
    job = run(user, lapsed=-HOUR, worker=dead)
    settle("default", Sightings())
    lost = fresh(job)
    assert lost.failure_code == FailureCode.WORKER_LOST
    assert lost.error_message == "The worker that ran attempt 1 was lost: its process has ended."


def test_a_live_worker_of_this_machine_is_left_alone_while_its_lease_holds(user, run):
    job = run(user, lapsed=-HOUR, worker=worker_name())
    assert settle_twice() == []
    assert fresh(job).status == "processing"


def test_h21_a_lapsed_job_that_was_to_be_cancelled_ends_cancelled(user, run):
    job = run(user, max_attempts=3)
    cancel_job(job.pk, actor=user)
    settle_twice()
    ended = fresh(job)
    assert (ended.status, ended.failure_code) == ("failed", FailureCode.CANCELLED)


def test_a_job_past_its_run_deadline_ends_timed_out(user, run):
    job = run(user)
    Job.objects.filter(pk=job.pk).update(run_deadline_at=clock.now() - HOUR)
    settle_twice()
    assert fresh(job).failure_code == FailureCode.TIMED_OUT


def test_a_silent_outside_driver_is_lost_when_its_lease_ends(user, external_type):
    from django_jobs.services import transition_status

    job = create_job(user, external_type)
    transition_status(job.pk, JobStatus.PROCESSING)
    Job.objects.filter(pk=job.pk).update(due_at=clock.now() - HOUR)
    settle_twice()
    lost = fresh(job)
    assert lost.failure_code == FailureCode.WORKER_LOST
    assert lost.error_message.startswith("The program that ran attempt 1 was lost")


def test_what_waits_for_its_time_is_left_alone(user, handler):
    name = handler(lambda job: None, queue_timeout=3600)
    job = create_job(user, name, run_at=clock.now() + 24 * HOUR)
    assert settle_twice() == []
    assert fresh(job).start_deadline_at > clock.now() + 24 * HOUR  # H17: the limit counts from then


def test_a_queued_job_past_its_start_deadline_ends_never_started(user, handler):
    name = handler(lambda job: None, queue_timeout=7200)
    job = create_job(user, name)
    Job.objects.filter(pk=job.pk).update(
        due_at=clock.now() - 3 * HOUR, start_deadline_at=clock.now() - HOUR
    )
    (settled,) = settle("default", Sightings())
    assert (settled.status, settled.failure_code) == ("failed", FailureCode.NEVER_STARTED)
    assert settled.error_message == "No worker took up the job within 2 h."
    assert (settled.attempt, settled.started_at) == (0, None)
    steps = list(job.transitions.order_by("id").values_list("from_status", "to_status"))
    assert steps == [("", "queued"), ("queued", "processing"), ("processing", "failed")]


def test_a_round_settles_a_batch_and_the_next_one_the_rest(user, handler):
    name = handler(lambda job: None)
    jobs = [create_job(user, name) for _ in range(5)]
    Job.objects.all().update(start_deadline_at=clock.now() - HOUR)
    assert len(settle("default", Sightings(), limit=3)) == 3
    assert len(settle("default", Sightings(), limit=3)) == 2
    assert {fresh(job).status for job in jobs} == {"failed"}
