import logging

import pytest
from django.db import DatabaseError, connection, connections, transaction

from django_jobs.execution.connections import ConnectionWatch
from django_jobs.execution.immediate import run_job
from django_jobs.models import Job
from django_jobs.testing import make_job
from tests.execution.surroundings import everywhere
from tests.host_jobs.models import Job as Written

at_commit = pytest.mark.django_db(transaction=True)
NOT_THERE = "SELECT 1 FROM not_there_at_all"


@pytest.fixture
def health_checks(request, transactional_db, monkeypatch):
    """With or without Django's health checks of connections that are kept."""
    with monkeypatch.context() as changed:
        changed.setitem(connection.settings_dict, "CONN_HEALTH_CHECKS", request.param)
        connection.close()
        yield
    connection.close()


def execute(statement, using="default"):
    with connections[using].cursor() as cursor:
        cursor.execute(statement)


def write(job):
    """Leave a row behind that shows whether the handler's transaction was committed."""
    Written.objects.create(user=job.user, title="written")


def is_written():
    return Written.objects.exists()


def is_usable(using="default"):
    """Whether the connection can be used as before: read, write, roll back."""
    before = Job.objects.using(using).count()
    with transaction.atomic(using=using):
        execute("SELECT 1", using)
        transaction.set_rollback(True, using=using)
    return Job.objects.using(using).count() == before and not connections[using].needs_rollback


def break_it(job):
    execute(NOT_THERE)


def break_it_in_a_transaction(job):
    with transaction.atomic():
        write(job)
        execute(NOT_THERE)


def break_it_in_a_transaction_and_go_on(job):
    with transaction.atomic():
        try:
            execute(NOT_THERE)
        except DatabaseError:
            execute("SELECT 1")


def break_it_in_a_savepoint_and_go_on(job):
    with transaction.atomic():
        try:
            with transaction.atomic():
                execute(NOT_THERE)
        except DatabaseError:
            write(job)


def break_it_and_return(job):
    try:
        execute(NOT_THERE)
    except DatabaseError:
        return "done"


def open_a_transaction(job):
    transaction.atomic().__enter__()
    write(job)


def open_two_transactions(job):
    transaction.atomic().__enter__()
    transaction.atomic().__enter__()
    write(job)


def open_a_transaction_and_break_it(job):
    transaction.atomic().__enter__()
    write(job)
    try:
        execute(NOT_THERE)
    except DatabaseError:
        return "done"


def open_a_transaction_and_mark_it(job):
    transaction.atomic().__enter__()
    write(job)
    transaction.set_rollback(True)


def begin_by_hand(job):
    execute("BEGIN")
    write(job)


def switch_autocommit_off(job):
    transaction.set_autocommit(False)
    write(job)


def leave_a_savepoint(job):
    execute("SAVEPOINT handmade")
    write(job)


def close_the_connection(job):
    connection.close()


def close_all_connections(job):
    connections.close_all()


def close_the_driver_s_connection(job):
    connection.connection.close()


def close_it_in_a_transaction(job):
    with transaction.atomic():
        write(job)
        connection.connection.close()


def close_it_in_a_transaction_left_open(job):
    transaction.atomic().__enter__()
    write(job)
    connection.connection.close()


def use_it_after_it_was_closed(job):
    connection.connection.close()
    write(job)


def end_it_on_the_server(job):
    kill = {
        "postgresql": "SELECT pg_terminate_backend(pg_backend_pid())",
        "mysql": "KILL CONNECTION_ID()",
    }.get(connection.vendor)
    try:
        execute(kill) if kill else connection.connection.close()
    except DatabaseError:
        return {"ok": 1}


# -- what spoils nothing -----------------------------------------------------------------------


@pytest.mark.parametrize("spoil", [break_it, break_it_in_a_transaction])
@everywhere
def test_an_error_of_the_database_is_the_handler_s_error(run, spoil):
    job = run(spoil)

    assert (job.status, job.failure_code) == ("failed", "handler_error")
    assert job.error_message.split(":")[0] in ("OperationalError", "ProgrammingError")
    assert "not_there_at_all" in job.error_message
    assert not is_written()
    assert is_usable()


@pytest.mark.parametrize(
    "spoil",
    [
        break_it_in_a_savepoint_and_go_on,
        break_it_and_return,
        close_the_connection,
    ],
)
@at_commit
def test_what_a_handler_puts_right_itself_does_no_harm(run, spoil):
    job = run(spoil)

    assert (job.status, job.error_message) == ("completed", "")
    assert is_usable()


@pytest.mark.parametrize("spoil", [break_it_in_a_savepoint_and_go_on, break_it_and_return])
@pytest.mark.django_db
@pytest.mark.parametrize("run", ["test case"], indirect=True)
def test_nor_does_it_in_a_test_case(run, spoil):
    job = run(spoil)

    assert (job.status, job.error_message) == ("completed", "")
    assert is_usable()


@everywhere
def test_a_transaction_that_stays_broken_ends_somehow(run):
    job = run(break_it_in_a_transaction_and_go_on)

    expected = "failed" if connection.vendor == "postgresql" else "completed"
    assert job.status == expected
    assert is_usable()


# -- what is left open -------------------------------------------------------------------------

LEFT_OPEN = [
    open_a_transaction,
    open_two_transactions,
    open_a_transaction_and_break_it,
    open_a_transaction_and_mark_it,
]


@pytest.mark.parametrize("spoil", LEFT_OPEN)
@everywhere
def test_a_transaction_that_is_left_open_fails_the_job_and_is_rolled_back(run, spoil):
    job = run(spoil)

    assert (job.status, job.failure_code) == ("failed", "handler_error")
    assert job.error_message == (
        "The handler left a transaction open on the database 'default'; "
        "what it wrote there was rolled back."
    )
    assert not is_written()
    assert is_usable()


@pytest.mark.parametrize("spoil", [begin_by_hand, switch_autocommit_off])
@at_commit
def test_so_does_one_that_was_opened_behind_django_s_back(run, spoil):
    job = run(spoil)

    assert job.error_message.startswith("The handler left a transaction open on the database")
    assert job.status == "failed"
    assert not is_written()
    assert connection.get_autocommit()
    assert is_usable()


@at_commit
def test_a_savepoint_outside_a_transaction_is_what_the_database_takes_it_for(run):
    job = run(leave_a_savepoint)

    assert (
        job.error_message.split(" on ")[0].split(" can ")[0]
        == {
            "sqlite": "The handler left a transaction open",
            "postgresql": "InternalError: SAVEPOINT",
            "mysql": "",  # it is forgotten at once
        }[connection.vendor]
    )
    assert is_written() == (job.status == "completed")
    assert is_usable()


@pytest.mark.parametrize("spoil", [*LEFT_OPEN, begin_by_hand, switch_autocommit_off])
@at_commit
def test_what_a_handler_raises_says_more_than_what_it_left_open(run, spoil):
    def work(job):
        spoil(job)
        raise ValueError("boom")

    job = run(work)

    assert (job.status, job.error_message) == ("failed", "ValueError: boom")
    assert not is_written()
    assert is_usable()


@at_commit
def test_a_job_that_left_a_transaction_open_is_tried_again(run):
    def work(job):
        if job.attempt == 1:
            transaction.atomic().__enter__()
        return job.attempt

    job = run(work, max_attempts=2)

    assert (job.status, job.result) == ("completed", 2)


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
@pytest.mark.parametrize("spoil", ["atomic", "autocommit", "begin"])
def test_a_transaction_on_another_database_is_found_too(run, spoil):
    def work(job):
        if spoil == "atomic":
            transaction.atomic(using="other").__enter__()
            execute("SELECT 1", "other")
        elif spoil == "autocommit":
            transaction.set_autocommit(False, using="other")
        else:
            execute("BEGIN", "other")

    job = run(work)

    assert job.status == "failed"
    assert "on the database 'other'" in job.error_message
    assert is_usable("other")


@at_commit
def test_the_next_job_begins_with_a_clean_connection(run):
    assert run(open_a_transaction).status == "failed"
    assert run(lambda job: write(job)).status == "completed"
    assert is_written()


# -- what is closed ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spoil",
    [close_all_connections, close_the_driver_s_connection, end_it_on_the_server],
)
@pytest.mark.parametrize(
    "health_checks", [True, False], ids=["checked", "unchecked"], indirect=True
)
@pytest.mark.usefixtures("health_checks")
@at_commit
def test_the_outcome_is_written_even_if_the_connection_is_gone(run, spoil, monkeypatch):
    monkeypatch.setattr("django_jobs.models.transient.WAIT", 0)

    def work(job):
        spoil(job)
        return {"ok": 1}

    job = run(work)

    assert (job.status, job.error_message, job.result) == ("completed", "", {"ok": 1})
    assert is_usable()


@pytest.mark.parametrize("spoil", [close_it_in_a_transaction, use_it_after_it_was_closed])
@at_commit
def test_a_handler_that_fails_without_its_connection_is_failed(run, spoil):
    job = run(spoil)

    assert (job.status, job.failure_code) == ("failed", "handler_error")
    assert job.error_message.split(":")[0] in (
        "OperationalError",
        "InterfaceError",
        "ProgrammingError",
    )
    assert not is_written()
    assert is_usable()


@at_commit
def test_a_transaction_left_open_on_a_closed_connection_fails_the_job(run):
    job = run(close_it_in_a_transaction_left_open)

    assert job.status == "failed"
    assert job.error_message.startswith("The handler left a transaction open on the database")
    assert not is_written()
    assert is_usable()


@at_commit
def test_reports_without_a_connection_are_kept_for_later(run, caplog):
    def work(job):
        connection.connection.close()
        job.update_progress(50, "half")
        return "done"

    with caplog.at_level(logging.WARNING, "django_jobs"):
        job = run(work)

    assert (job.status, job.result, job.progress_message) == ("completed", "done", "half")
    assert str(job.pk) in caplog.text and job.job_type in caplog.text


@at_commit
def test_a_connection_that_was_never_opened_stays_closed(run):
    connection.close()

    watch = ConnectionWatch("default")
    assert watch.left_open() == ""
    watch.restore()

    assert connection.connection is None


# -- inside the transaction of somebody else ---------------------------------------------------


@pytest.mark.parametrize(
    "spoil",
    [break_it, break_it_in_a_transaction, break_it_and_return, *LEFT_OPEN],
)
@pytest.mark.django_db
@pytest.mark.parametrize("run", ["test case"], indirect=True)
def test_what_is_around_the_handler_is_not_spoilt(run, user, spoil):
    earlier = make_job(user, job_type="earlier")

    run(spoil)

    later = make_job(user, job_type="later")
    assert set(Job.objects.filter(job_type__in=["earlier", "later"])) == {earlier, later}
    assert connection.in_atomic_block
    assert not connection.needs_rollback


@pytest.mark.django_db
@pytest.mark.parametrize("run", ["test case"], indirect=True)
def test_what_a_handler_writes_stays_in_the_transaction_around_it(run):
    run(lambda job: write(job))

    assert is_written()


@at_commit
def test_a_handler_that_closes_that_transaction_raises_nothing_into_the_caller(
    user, handler, caplog
):
    with transaction.atomic():
        job = make_job(user, job_type=handler(close_the_connection))
        run_job(job.pk, "default")

    assert f"job {job.pk}: the database is away" in caplog.text
    assert is_usable()


@pytest.mark.django_db
@pytest.mark.parametrize("run", ["test case"], indirect=True)
def test_several_handlers_may_spoil_the_same_transaction(run):
    for spoil in (break_it, open_a_transaction, break_it_and_return, open_two_transactions):
        run(spoil)

    assert run(lambda job: "done").result == "done"
    assert is_usable()
