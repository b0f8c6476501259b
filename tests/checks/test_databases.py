import pytest
from django.core.management import call_command
from django.db import connections

from django_jobs.checks.databases import check_database_settings, check_journal_mode
from tests.checks.conftest import ids

is_sqlite = pytest.mark.skipif(
    connections["default"].vendor != "sqlite", reason="about SQLite's own options"
)


@pytest.fixture
def database(monkeypatch):
    """Set options of a database; ``None`` removes one. ``conn_max_age`` is no option."""

    def change(alias="default", conn_max_age=None, **options):
        given = connections[alias].settings_dict
        if conn_max_age is not None:
            monkeypatch.setitem(given, "CONN_MAX_AGE", conn_max_age)
        changed = {**given["OPTIONS"], **options}
        kept = {name: value for name, value in changed.items() if value is not None}
        monkeypatch.setitem(given, "OPTIONS", kept)

    return change


@pytest.fixture
def jobs_elsewhere(settings):
    settings.DATABASE_ROUTERS = ["tests.routers.JobsElsewhere"]


def test_the_databases_of_the_suite_are_left_in_peace():
    assert check_database_settings() == []


def test_connections_are_kept(database):
    database(conn_max_age=0)
    [message] = check_database_settings()
    assert ids([message]) == ["W005"]
    assert "'default'" in message.msg


@pytest.mark.usefixtures("jobs_elsewhere")
def test_connections_to_the_queue_and_to_the_jobs_are_kept(database):
    database("default", conn_max_age=0)
    database("other", conn_max_age=0)
    messages = check_database_settings()
    assert ids(messages) == ["W005", "W005"]
    assert ["'default'" in messages[0].msg, "'other'" in messages[1].msg] == [True, True]


def test_connections_without_end_and_pools_are_well(database):
    database(conn_max_age=0, pool=True)
    assert "W005" not in ids(check_database_settings())


def test_connections_need_not_be_kept_without_workers(database, jobs):
    jobs(ENGINE="immediate")
    database(conn_max_age=0, timeout=1)
    assert check_database_settings() == []


@is_sqlite
@pytest.mark.parametrize("mode", [None, "DEFERRED"])
def test_transactions_on_sqlite_are_immediate(database, mode):
    database(transaction_mode=mode)
    assert ids(check_database_settings()) == ["W006"]


@is_sqlite
@pytest.mark.parametrize("timeout", [None, 19.9])
def test_writers_on_sqlite_wait_for_their_turn(database, timeout):
    database(timeout=timeout)
    assert ids(check_database_settings()) == ["W007"]


@is_sqlite
@pytest.mark.parametrize("command", [None, "PRAGMA journal_mode=DELETE;", "PRAGMA synchronous=OFF"])
def test_sqlite_is_asked_for_a_write_ahead_log(database, command):
    database(init_command=command)
    assert ids(check_database_settings()) == ["W008"]


@is_sqlite
@pytest.mark.parametrize("command", ["pragma journal_mode = wal", "PRAGMA journal_mode(WAL);"])
def test_sqlite_may_be_asked_in_other_words(database, command):
    database(init_command=command)
    assert check_database_settings() == []


@is_sqlite
@pytest.mark.usefixtures("jobs_elsewhere")
def test_the_database_of_the_jobs_is_the_one_that_counts(database):
    database("default", timeout=1)
    assert check_database_settings() == []
    database("other", timeout=1)
    assert "'other'" in check_database_settings()[0].msg


@pytest.mark.django_db
def test_the_journal_of_the_suite_is_as_asked_for():
    assert check_journal_mode(databases=["default"]) == []


@is_sqlite
@pytest.mark.django_db(transaction=True)
def test_a_journal_that_is_not_as_asked_for():
    with connections["default"].cursor() as cursor:
        cursor.execute("PRAGMA journal_mode=DELETE")
        try:
            [message] = check_journal_mode(databases=["default"])
        finally:
            cursor.execute("PRAGMA journal_mode=WAL")
    assert ids([message]) == ["W009"]
    assert "delete" in message.msg


@pytest.mark.parametrize("databases", [None, [], ["other"]])
def test_no_database_is_asked_that_was_not_named(databases):
    assert check_journal_mode(databases=databases) == []  # no mark: a query would fail


@pytest.mark.django_db
def test_the_checks_are_registered(cluster, database, capsys):
    cluster(sync=True)
    database(conn_max_age=0)
    call_command("check", "--tag", "django_jobs", "--database", "default")
    said = capsys.readouterr().err
    assert "django_jobs.W003" in said
    assert "django_jobs.W005" in said
