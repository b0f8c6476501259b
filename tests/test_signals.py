import logging
import threading
from contextlib import contextmanager

import pytest
from django.db import connection, transaction

from django_jobs.models import Job, JobTransition
from django_jobs.services import (
    cancel_job,
    create_asset,
    create_job,
    create_jobs,
    mark_completed,
    mark_failed,
    mark_partial,
    retry_job,
    transition_status,
    update_progress,
)
from django_jobs.signals import job_finished, job_transitioned

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def connected(signal, receiver):
    signal.connect(receiver, weak=False)
    try:
        yield
    finally:
        signal.disconnect(receiver)


@pytest.fixture
def heard():
    """What the two signals told, in order: steps as (from, to), ends as the state."""
    told = []

    def on_step(sender, job, transition, **kwargs):
        assert sender is Job
        assert isinstance(transition, JobTransition)
        assert transition.job_id == job.pk
        told.append((transition.from_status, transition.to_status))

    def on_end(sender, job, **kwargs):
        assert sender is Job
        told.append(job.status)

    with connected(job_transitioned, on_step), connected(job_finished, on_end):
        yield told


def raise_an_error(**kwargs):
    raise RuntimeError("a receiver that does not work")


# -- what is told ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "status"),
    [(mark_completed, "completed"), (mark_partial, "partial"), (mark_failed, "failed")],
)
def test_each_step_and_the_end_are_told(user, external_type, heard, end, status):
    job = create_job(user, external_type)
    transition_status(job.pk, "processing")
    end(job.pk, "x")

    assert heard == [
        ("", "queued"),
        ("queued", "processing"),
        ("processing", status),
        status,
    ]


def test_a_job_that_is_run_is_told_of_too(user, handler, heard):
    create_job(user, handler(lambda job: None))

    assert heard[-2:] == [("processing", "completed"), "completed"]
    assert len(heard) == 4


def test_attempts_are_told_of(user, handler, heard):
    def work(job):
        if job.attempt == 1:
            raise ValueError

    create_job(user, handler(work, max_attempts=2))

    assert heard == [
        ("", "queued"),
        ("queued", "processing"),
        ("processing", "processing"),
        ("processing", "processing"),
        ("processing", "completed"),
        "completed",
    ]


def test_a_job_that_is_cancelled_while_it_waits_is_told_of(user, external_type, heard):
    cancel_job(create_job(user, external_type).pk, actor=user)

    assert heard[1:] == [("queued", "processing"), ("processing", "failed"), "failed"]


def test_a_request_to_cancel_is_a_step_and_no_end(user, external_type, heard):
    job = create_job(user, external_type)
    transition_status(job.pk, "processing")
    cancel_job(job.pk, actor=user)

    assert heard[2:] == [("processing", "processing")]


def test_several_jobs_are_told_of_one_by_one(user, external_type, heard):
    create_jobs(user, external_type, [{}, {}, {}])

    assert heard == [("", "queued")] * 3


def test_a_retry_is_a_new_job(user, external_type, heard):
    job = cancel_job(create_job(user, external_type).pk, actor=user)
    del heard[:]

    retry_job(job.pk, actor=user)

    assert heard == [("", "queued")]


def test_progress_and_assets_are_no_steps(user, external_type, heard):
    job = create_job(user, external_type)
    transition_status(job.pk, "processing")
    del heard[:]

    update_progress(job.pk, 50)
    transition_status(job.pk, "processing", progress=60)
    create_asset(job.pk, user, "image", "", "a.png", 1)

    assert heard == []


def test_what_is_refused_is_not_told(user, external_type, heard):
    job = create_job(user, external_type)
    del heard[:]

    with pytest.raises(Exception, match="Cannot transition"):
        mark_completed(job.pk)

    assert heard == []


# -- when it is told ---------------------------------------------------------------------------


def test_nothing_is_told_before_the_commit(user, external_type, heard):
    with transaction.atomic():
        job = create_job(user, external_type)
        transition_status(job.pk, "processing")
        mark_completed(job.pk)
        assert heard == []

    assert len(heard) == 4


def test_nothing_is_told_of_what_was_rolled_back(user, external_type, heard):
    with pytest.raises(ZeroDivisionError), transaction.atomic():  # noqa: PT012
        create_job(user, external_type)
        create_jobs(user, external_type, [{}])
        1 / 0  # noqa: B018

    assert heard == []


def test_nothing_is_told_of_a_savepoint_that_was_rolled_back(user, external_type, heard):
    with transaction.atomic():
        job = create_job(user, external_type)
        with pytest.raises(ZeroDivisionError), transaction.atomic():  # noqa: PT012
            transition_status(job.pk, "processing")
            1 / 0  # noqa: B018

    assert heard == [("", "queued")]


def test_who_is_told_sees_the_row_from_another_connection(user, external_type):
    seen = []

    def look(job, transition, **kwargs):
        def read():
            seen.append(Job.objects.get(pk=job.pk).status)
            connection.close()

        thread = threading.Thread(target=read)
        thread.start()
        thread.join()

    with connected(job_transitioned, look):
        job = create_job(user, external_type)
        transition_status(job.pk, "processing")
        mark_completed(job.pk)

    assert seen == ["queued", "processing", "completed"]


def test_who_is_told_of_the_end_sees_all_of_it(user, handler):
    seen = []

    def look(job, **kwargs):
        seen.append((job.status, job.result, job.progress, job.completed_at is not None))

    with connected(job_finished, look):
        create_job(user, handler(lambda job: {"a": 1}))

    assert seen == [("completed", {"a": 1}, 100, True)]


# -- receivers that do not work ----------------------------------------------------------------


@pytest.mark.parametrize("signal", [job_transitioned, job_finished], ids=["step", "end"])
def test_a_receiver_that_raises_harms_nobody(user, external_type, handler, heard, signal, caplog):
    with connected(signal, raise_an_error):
        job = create_job(user, external_type)
        transition_status(job.pk, "processing")
        mark_completed(job.pk)
        ran = create_job(user, handler(lambda job: "done"))

    assert Job.objects.get(pk=job.pk).status == "completed"
    assert Job.objects.get(pk=ran.pk).result == "done"
    assert len(heard) == 8
    assert "a receiver that does not work" in caplog.text


@pytest.mark.parametrize("signal", [job_transitioned, job_finished], ids=["step", "end"])
def test_a_receiver_that_raises_does_not_silence_the_next(user, handler, signal):
    told = []

    def note(**kwargs):
        told.append(True)

    with connected(signal, raise_an_error), connected(signal, note):
        create_job(user, handler(lambda job: None))

    assert len(told) == (3 if signal is job_transitioned else 1)


def test_a_receiver_may_order_and_end_jobs(user, external_type, handler):
    name = handler(lambda job: "done")

    def order(job, **kwargs):
        if job.job_type == external_type:
            create_job(job.user, name)

    with connected(job_finished, order):
        job = create_job(user, external_type)
        transition_status(job.pk, "processing")
        mark_completed(job.pk)

    assert list(Job.objects.order_by("id").values_list("status", flat=True)) == ["completed"] * 2


def test_a_receiver_that_breaks_its_transaction_harms_nobody(user, handler):
    def spoil(job, **kwargs):
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM not_there_at_all")

    with connected(job_transitioned, spoil):
        job = create_job(user, handler(lambda job: "done"))

    assert Job.objects.get(pk=job.pk).result == "done"


# -- the log -----------------------------------------------------------------------------------


def test_each_step_is_logged_with_id_and_type_of_the_job(user, handler, caplog):
    def work(job):
        raise ValueError("boom")

    with caplog.at_level(logging.INFO, "django_jobs"):
        job = create_job(user, handler(work))

    lines = [record.getMessage() for record in caplog.records if record.name.startswith("django_")]
    begin = f"job {job.pk} ({job.job_type}): "
    assert lines == [
        f"{begin}new -> queued, attempt 0",
        f"{begin}queued -> processing, attempt 1",
        f"{begin}processing -> failed, attempt 1, handler_error: ValueError: boom",
    ]


def test_nothing_is_logged_of_what_was_rolled_back(user, external_type, caplog):
    with caplog.at_level(logging.INFO, "django_jobs"), transaction.atomic():
        create_job(user, external_type)
        transaction.set_rollback(True)

    assert caplog.records == []


def test_the_library_installs_no_log_handler():
    assert logging.getLogger("django_jobs").handlers == []
