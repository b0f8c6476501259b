"""What is tried again when the database could not do it, and what is not."""

import threading
from types import SimpleNamespace

import pytest
from django.db import InterfaceError, OperationalError, connection, transaction

from django_jobs.models import Job, transient
from django_jobs.models.transient import Patience, again_if_undone, in_transaction, was_undone
from django_jobs.services import cancel_job, create_job
from django_jobs.testing import make_job
from tests.stored import row_of, steps_of

DEADLOCK = OperationalError(1213, "Deadlock found when trying to get lock")
GONE = OperationalError("server closed the connection unexpectedly")


def of_postgresql(sqlstate):
    """An error as Django wraps it: the driver's, with its SQLSTATE, is the cause."""
    error = OperationalError("the text does not matter")
    error.__cause__ = type("DriverError", (Exception,), {"sqlstate": sqlstate})()
    return error


@pytest.mark.parametrize(
    "error",
    [
        *[of_postgresql(sqlstate) for sqlstate in ("40001", "40P01", "55P03")],
        *[OperationalError(number, "text") for number in (1020, 1205, 1213)],
        OperationalError("database is locked"),
    ],
)
def test_a_transaction_that_met_others_is_known_to_be_undone(error):
    assert was_undone(error)


@pytest.mark.parametrize(
    "error",
    [
        *[of_postgresql(sqlstate) for sqlstate in ("57P01", "08006", "53300", None)],
        *[OperationalError(number, "text") for number in (2006, 2013, 1040)],
        OperationalError("database or disk is full"),
        OperationalError(),
        InterfaceError("connection already closed"),
    ],
)
def test_of_other_transactions_nobody_knows(error):
    assert not was_undone(error)


class Work:
    """Fails a few times, then returns."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.calls = 0

    def __call__(self):
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


@pytest.mark.django_db(transaction=True)
def test_what_was_undone_is_done_again(caplog):
    work = Work(DEADLOCK, DEADLOCK)

    assert in_transaction("default", work) == "done"

    assert work.calls == 3
    assert caplog.text.count("Deadlock found") == 2


@pytest.mark.django_db(transaction=True)
def test_it_is_done_again_for_a_moment_only(monkeypatch):
    monkeypatch.setattr(transient, "MOMENT", 0.0)
    work = Work(DEADLOCK, DEADLOCK)

    with pytest.raises(OperationalError, match="Deadlock"):
        in_transaction("default", work)

    assert work.calls == 1


@pytest.mark.django_db(transaction=True)
def test_what_may_have_happened_is_not_done_again():
    work = Work(GONE)

    with pytest.raises(OperationalError, match="closed"):
        again_if_undone("default", work)

    assert work.calls == 1


@pytest.mark.django_db(transaction=True)
def test_inside_the_callers_transaction_the_caller_learns_of_it():
    work = Work(DEADLOCK)

    with pytest.raises(OperationalError, match="Deadlock"), transaction.atomic():
        in_transaction("default", work)

    assert work.calls == 1


@pytest.mark.django_db(transaction=True)
def test_patience_has_an_end(monkeypatch, caplog):
    monkeypatch.setattr(transient, "WAIT", 0)
    moments = iter([0.0, 1.0, 9.0, 10.0])
    monkeypatch.setattr(transient, "time", SimpleNamespace(monotonic=moments.__next__, sleep=abs))
    patience = Patience("default", 10)
    for _ in range(2):
        patience.bear(GONE, "job 7: its outcome waits")

    with pytest.raises(OperationalError):
        patience.bear(GONE, "job 7: its outcome waits")

    assert caplog.text.count("job 7: its outcome waits: OperationalError: server closed") == 2
    assert "job 7: its outcome waits no longer: OperationalError: server closed" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_a_cancel_that_meets_a_deadlock_happens_once(user, monkeypatch):
    job = make_job(user, "queued")
    refuse = _refuse_updates_of_jobs(1)

    with connection.execute_wrapper(refuse):
        cancel_job(job.pk, actor=user, reason="not needed")

    assert refuse.refused == 1
    assert row_of(job)["failure_code"] == "cancelled"
    assert steps_of(job).count("failed") == 1


@pytest.mark.django_db(transaction=True)
def test_an_order_is_not_repeated_behind_the_callers_back(user, handler):
    name = handler(lambda job: None)
    refuse = _refuse_updates_of_jobs(1, "INSERT INTO")

    with connection.execute_wrapper(refuse), pytest.raises(OperationalError):
        create_job(user, name)

    assert not Job.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_real_deadlock_costs_nobody_anything(user):
    """Two transactions lock two rows crosswise; the database undoes one of them."""
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one lock: nobody can hold half of what another needs")
    first, second = make_job(user, "queued"), make_job(user, "queued")
    both_hold_one = threading.Barrier(2, timeout=30)
    outcomes = []

    def write(one, other):
        tries = 0

        def work():
            nonlocal tries
            tries += 1
            Job.objects.filter(pk=one.pk).update(priority=tries)
            if tries == 1:
                both_hold_one.wait()
            Job.objects.filter(pk=other.pk).update(priority=tries)
            return tries

        outcomes.append(in_transaction("default", work))
        connection.close()

    threads = [
        threading.Thread(target=write, args=pair) for pair in ((first, second), (second, first))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(outcomes) == [1, 2]


def _refuse_updates_of_jobs(times, begin="UPDATE"):
    def refuse(execute, sql, params, many, context):
        if sql.startswith(begin) and '_job"' in sql.replace("`", '"') and refuse.refused < times:
            refuse.refused += 1
            raise DEADLOCK
        return execute(sql, params, many, context)

    refuse.refused = 0
    return refuse
