import datetime as dt

import pytest
from django.db import connection
from django.db.models import JSONField

from django_jobs.models import Job, JobStatus, JobTransition, persistence, statements
from django_jobs.states import LIVE_STATES, FailureCode
from django_jobs.testing import make_job
from tests.stored import Statements, log_of, row_of

pytestmark = pytest.mark.django_db

WORKER = "host/machine/1/2/abcd"
COLUMNS = [
    field.attname
    for field in Job._meta.concrete_fields
    if not field.primary_key and not isinstance(field, JSONField)
]


@pytest.fixture
def job(user):
    job = make_job(user, JobStatus.PROCESSING, worker=WORKER, run_at=None)
    return Job.objects.get(pk=job.pk)


def update(job, changes, **expected):
    return statements.guarded_update(Job, "default", job.pk, changes, expected)


def another(value):
    """Return a value of the same kind as ``value`` that is not equal to it."""
    if isinstance(value, dt.datetime):
        return value + dt.timedelta(microseconds=1)
    return f"{value}x" if isinstance(value, str) else 7


def test_a_row_is_updated_if_all_its_columns_are_as_expected(job):
    expected = {name: value for name, value in row_of(job).items() if name in COLUMNS}
    assert update(job, {"priority": 5}, **expected)
    assert row_of(job)["priority"] == 5


@pytest.mark.parametrize("name", [name for name in COLUMNS if not name.endswith("_id")])
def test_a_row_is_left_alone_if_one_column_is_not_as_expected(job, name):
    before = row_of(job)
    if before[name] is None:
        unexpected = "x" if name == "idempotency_key" else before["created_at"]
    else:
        unexpected = another(before[name])
    assert not update(job, {"priority": 5}, **{name: unexpected})
    assert row_of(job) == before
    assert update(job, {"priority": 5}, **{name: before[name]})


def test_other_rows_are_left_alone(user, job):
    other = make_job(user, JobStatus.PROCESSING, worker=WORKER)
    before = row_of(other)
    update(job, {"priority": 5}, status="processing", worker=WORKER)
    assert row_of(other) == before


def test_one_of_several_values_may_be_expected(job):
    assert update(job, {"priority": 5}, status=LIVE_STATES)
    assert not update(job, {"priority": 6}, status=(JobStatus.QUEUED, JobStatus.FAILED))
    assert row_of(job)["priority"] == 5


def test_an_update_to_the_same_values_is_one_too(job):
    assert update(job, {"priority": 0})
    assert update(job, {"priority": 0})


def test_a_new_version_is_one_more(job):
    assert update(job, {"version": None})
    assert row_of(job)["version"] == job.version + 1


def test_all_kinds_of_values_are_written(user, job):
    changes = {
        "status": JobStatus.FAILED,
        "failure_code": FailureCode.TIMED_OUT,
        "error_message": "50 % »Ünïcode« 🙂 'quoted' \\ %s",
        "result": None,
        "parameters": {"naïve": [1, 2.5, None, True, "%s"]},
        "due_at": None,
        "completed_at": job.created_at + dt.timedelta(microseconds=1),
        "cancel_requested_by_id": user.pk,
        "idempotency_key": "a",
        "progress": 30,
    }
    assert update(job, changes)
    row = row_of(job)
    assert {name: row[name] for name in changes} == changes


@pytest.mark.skipif(connection.vendor != "mysql", reason="about MariaDB's choice of indexes")
@pytest.mark.parametrize("guard", [persistence.FENCE, persistence.DECISION])
def test_the_row_is_found_by_its_key_alone(user, job, guard):
    # Found by another index, its locks are taken in another order: a deadlock with other writers.
    for _ in range(20):
        make_job(user)
    with Statements() as sent:
        assert update(job, {"priority": 5}, **{name: getattr(job, name) for name in guard})
    [query] = sent.captured_queries
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {query['sql']}")
        plan = dict(
            zip([column[0] for column in cursor.description], cursor.fetchone(), strict=True)
        )
    assert plan["key"] == "PRIMARY"


@pytest.mark.parametrize("number", [1, 3])
def test_rows_are_inserted_with_one_statement(user, job, number):
    before = log_of(job)
    rows = [
        JobTransition(job=job, to_status=JobStatus.FAILED, actor=user, message="50 % 🙂")
        for _ in range(number)
    ]
    with Statements() as sent:
        statements.insert("default", rows)
    assert sent.sent == ["INSERT django_jobs_jobtransition"]
    assert log_of(job)[len(before) :] == list(
        JobTransition.objects.filter(pk__in=[row.pk for row in rows]).order_by("id").values()
    )
    assert [(row._state.adding, row._state.db) for row in rows] == [(False, "default")] * number
    found = JobTransition.objects.get(pk=rows[0].pk)
    assert (found.message, found.actor_id) == ("50 % 🙂", user.pk)
    assert found.created_at == rows[0].created_at
