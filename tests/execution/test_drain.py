"""Drains: claim, run, finish and claim, in doubt too."""

import threading
import time

import pytest
from django.db import DataError, OperationalError, connection, transaction

from django_jobs.execution import claim, handover
from django_jobs.execution.drain import TOKEN_LIFE, drain, run_what_is_due
from django_jobs.models import FailureCode, Job, clock
from django_jobs.services import cancel_job, create_job, create_jobs, mark_partial
from django_jobs.signals import job_finished
from tests.execution.losing import commit_refused, reply_lost

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def for_workers(settings):
    settings.DJANGO_JOBS = {"ENGINE": "django_q", "TICK": 0.5, "LEASE": 3, "NOTIFY": False}
    clock.now()  # measure the offset now: not among the statements that are counted


@pytest.fixture
def bodies(handler):
    """A type of job, and the list of the jobs whose bodies were entered."""
    entered = []

    def body(job):
        entered.append(job.id)
        return {"n": len(entered)}

    return handler(body), entered


def log_of(job):
    return list(job.transitions.order_by("id").values_list("to_status", flat=True))


def drain_all():
    return run_what_is_due("default")


def test_a_drain_runs_what_is_due_to_its_outcome(user, bodies):
    name, entered = bodies
    jobs = create_jobs(user, name, [{}] * 3)
    assert drain_all() == 3
    assert entered == [job.pk for job in jobs]
    for job in jobs:
        job.refresh_from_db()
        assert (job.status, job.attempt, log_of(job)) == (
            "completed",
            1,
            ["queued", "processing", "completed"],
        )


def test_h19_a_stale_word_is_not_acted_upon(user, bodies):
    name, entered = bodies
    create_job(user, name)
    drain(time.monotonic() - TOKEN_LIFE - 0.1)
    assert entered == []
    drain(time.monotonic())
    assert len(entered) == 1


def test_a_drain_claims_for_a_bounded_time(user, bodies, settings):
    name, entered = bodies
    create_jobs(user, name, [{}] * 3)
    settings.DJANGO_JOBS = {**settings.DJANGO_JOBS, "DRAIN": 0}
    assert drain_all() == 1
    assert len(entered) == 1


def test_h12_types_that_this_process_does_not_know_are_left_alone(user, bodies, external_type):
    name, _ = bodies
    outside = create_job(user, external_type)
    create_job(user, name)
    assert drain_all() == 1
    outside.refresh_from_db()
    assert outside.status == "queued"


@pytest.mark.parametrize("commit", [1, 2, 3])
def test_h3_h4_a_commit_whose_reply_is_lost_is_recognised(commit, user, bodies):
    """Commit 1 is the claim of A, 2 the outcome of A with the claim of B, 3 the outcome of B."""
    name, entered = bodies
    jobs = create_jobs(user, name, [{}] * 2)
    with reply_lost(commit):
        drain_all()
    drain_all()
    assert entered == [job.pk for job in jobs]  # each body once
    for job in jobs:
        job.refresh_from_db()
        assert (job.status, job.attempt, job.failure_code) == ("completed", 1, "")
        assert log_of(job) == ["queued", "processing", "completed"]


@pytest.mark.parametrize("commit", [1, 2, 3])
def test_a_commit_that_fails_is_tried_again(commit, user, bodies):
    name, entered = bodies
    jobs = create_jobs(user, name, [{}] * 2)
    with commit_refused(commit):
        drain_all()
    drain_all()
    assert sorted(entered) == sorted(job.pk for job in jobs)
    for job in jobs:
        job.refresh_from_db()
        assert (job.status, job.attempt) == ("completed", 1)
        assert log_of(job) == ["queued", "processing", "completed"]


@pytest.mark.parametrize("error", [OperationalError(1213, "Deadlock found"), DataError("bad row")])
def test_h14_an_error_in_the_claim_of_the_next_leaves_the_outcome(error, user, bodies, monkeypatch):
    name, _ = bodies
    first, second = create_jobs(user, name, [{}] * 2)
    real, count = claim.Claim.take, 0

    def take(self):
        nonlocal count
        count += 1
        real(self)
        if count == 2:
            raise error

    monkeypatch.setattr(claim.Claim, "take", take)
    drain_all()
    first.refresh_from_db()
    assert (first.status, log_of(first)) == ("completed", ["queued", "processing", "completed"])
    second.refresh_from_db()
    assert (second.status, second.attempt) == ("queued", 0)
    drain_all()
    second.refresh_from_db()
    assert second.status == "completed"


@pytest.mark.skipif(
    connection.vendor != "mysql",
    reason="PostgreSQL passes over locked rows, SQLite has one lock: no deadlock to stage",
)
def test_h14_a_real_deadlock_on_mariadb_leaves_the_outcome(user, handler):
    b_is_locked, a_is_done, ended = threading.Event(), threading.Event(), threading.Event()

    def body(job):
        b_is_locked.wait(20)
        a_is_done.set()

    name = handler(body)
    first, second = create_jobs(user, name, [{}] * 2)

    def rival():
        with transaction.atomic():
            user_model = type(user)
            user_model.objects.bulk_create(  # much to undo: the other one becomes the victim
                [user_model(**{user_model.USERNAME_FIELD: f"rival{n}@x.org"}) for n in range(500)]
            )
            Job.objects.select_for_update().get(pk=second.pk)
            b_is_locked.set()
            a_is_done.wait(20)
            while not _somebody_waits_for_a_lock():
                ended.wait(0.3)  # InnoDB renews this table only after 0.1 s of not being asked
            Job.objects.select_for_update().get(pk=first.pk)
            transaction.set_rollback(True)
        connection.close()

    thread = threading.Thread(target=rival)
    thread.start()
    drain_all()
    thread.join()
    first.refresh_from_db()
    assert (first.status, first.attempt, log_of(first)) == (
        "completed",
        1,
        ["queued", "processing", "completed"],
    )
    drain_all()
    second.refresh_from_db()
    assert (second.status, second.attempt) == ("completed", 1)


def _somebody_waits_for_a_lock():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'"
        )
        return cursor.fetchone()[0]


def test_h18_listeners_run_before_the_next_job_is_claimed(user, bodies):
    name, _ = bodies
    first, second = create_jobs(user, name, [{}] * 2)
    seen = []

    def listen(job, **kwargs):
        if job.pk == first.pk:
            seen.append(Job.objects.get(pk=second.pk).status)

    job_finished.connect(listen)
    try:
        drain_all()
    finally:
        job_finished.disconnect(listen)
    assert seen == ["queued"]
    second.refresh_from_db()
    assert second.status == "completed"


def test_one_commit_for_each_job_drained(user, bodies):
    name, _ = bodies
    create_jobs(user, name, [{}] * 10)
    commits, real = 0, connection.commit

    def count():
        nonlocal commits
        commits += 1
        real()

    connection.commit = count
    try:
        drain_all()
    finally:
        del connection.commit
    assert commits == 11  # the first claim, then outcome + next claim


def test_a_job_that_was_cancelled_while_it_waited_for_the_claim_is_not_started(user, bodies):
    name, entered = bodies
    job = create_job(user, name)
    Job.objects.filter(pk=job.pk).update(cancel_requested_at=clock.now())
    drain_all()
    job.refresh_from_db()
    assert (job.status, job.failure_code, entered) == ("failed", FailureCode.CANCELLED, [])


def test_h21_a_cancel_request_during_the_body_wins_over_a_retry(user, handler):
    def body(job):
        cancel_job(job.id, actor=user, reason="enough")
        raise ValueError("would be repeated")

    name = handler(body, max_attempts=3)
    job = create_job(user, name)
    drain_all()
    job.refresh_from_db()
    assert (job.status, job.failure_code) == ("failed", FailureCode.CANCELLED)
    assert job.error_message == "The job was cancelled: enough"


def test_a_result_that_cannot_be_stored_fails_the_job_and_the_next_one_runs(user, handler):
    name = handler(lambda job: {"rows": [1, float("nan")]} if job.parameters else {"fine": 1})
    bad, good = create_jobs(user, name, [{"bad": 1}, {}])
    assert drain_all() == 2
    bad.refresh_from_db()
    good.refresh_from_db()
    assert (bad.failure_code, bad.error_message) == (
        FailureCode.INVALID_RESULT,
        "result.rows[1]: NaN is not valid JSON",
    )
    assert good.status == "completed"


def test_a_handler_that_ends_its_own_job_is_believed(user, handler):
    name = handler(lambda job: mark_partial(job.id, {"half": True}, "the rest is missing"))
    job, following = create_jobs(user, name, [{}] * 2)
    assert drain_all() >= 1
    drain_all()
    job.refresh_from_db()
    assert (job.status, job.result, job.error_message) == (
        "partial",
        {"half": True},
        "the rest is missing",
    )
    following.refresh_from_db()
    assert following.status == "partial"


def test_a_job_deleted_while_it_runs_leaves_nothing_behind(user, handler):
    def body(job):
        Job.objects.filter(pk=job.id).delete()
        job.update_progress(50)
        return {"too": "late"}

    name = handler(body)
    create_jobs(user, name, [{}] * 2)
    drain_all()
    drain_all()
    assert not Job.objects.exists()


def test_a_row_that_cannot_be_claimed_is_ended_and_does_not_block_the_others(
    user, bodies, monkeypatch
):
    name, entered = bodies
    bad, good = create_jobs(user, name, [{}] * 2)
    real = Job.start

    def start(self, **options):
        real(self, **options)
        if self.pk == bad.pk:
            raise DataError("this row is bad")

    monkeypatch.setattr(Job, "start", start)
    for _ in range(3):
        drain_all()
    bad.refresh_from_db()
    good.refresh_from_db()
    assert (bad.status, bad.failure_code) == ("failed", FailureCode.HANDLER_ERROR)
    assert good.status == "completed"
    assert entered == [good.pk]


def test_an_outcome_is_tried_for_as_long_as_the_database_is_away(user, bodies, monkeypatch):
    name, _ = bodies
    job = create_job(user, name)
    monkeypatch.setattr("django_jobs.models.transient.WAIT", 0.01)
    with commit_refused(2, 3, 4):
        drain_all()
    job.refresh_from_db()
    assert job.status == "completed"
    assert handover.PATIENCE >= 60
