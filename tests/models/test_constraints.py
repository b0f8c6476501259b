"""Rows that must not be, tried in raw SQL behind the back of the models."""

import datetime as dt

import pytest
from django.db import IntegrityError, connection, transaction

from django_jobs.models import Asset, Job, JobTransition, clock
from django_jobs.models.fields import uuid7
from django_jobs.states import JobStatus
from django_jobs.testing import make_job

pytestmark = pytest.mark.django_db

LIVE = {"completed_at": None}
TERMINAL = {"due_at": None, "worker": "host/machine/1/2/abcd"}
FAILURE = {"error_message": "No disk.", "failure_code": "handler_error"}
VALID = {
    "queued": LIVE,
    "processing": {**LIVE, "worker": "host/machine/1/2/abcd", "attempt": 1},
    "completed": {**TERMINAL, "progress": 100},
    "partial": {**TERMINAL, "progress": 100},
    "failed": {**TERMINAL, **FAILURE, "progress": 30},
}

# constraint, state of the row, and the one thing that is wrong with it
IMPOSSIBLE = [
    ("django_jobs_valid_progress", "processing", {"progress": -1}),
    ("django_jobs_valid_progress", "processing", {"progress": 101}),
    ("django_jobs_queued_has_no_worker", "queued", {"worker": "host/machine/1/2/abcd"}),
    ("django_jobs_terminal_does_not_wait", "completed", {"worker": ""}),
    ("django_jobs_terminal_does_not_wait", "partial", {"worker": ""}),
    ("django_jobs_terminal_does_not_wait", "failed", {"worker": ""}),
    ("django_jobs_terminal_is_completed", "queued", {"due_at": None}),
    ("django_jobs_terminal_is_completed", "queued", {"completed_at": "now"}),
    ("django_jobs_terminal_is_completed", "processing", {"due_at": None}),
    ("django_jobs_terminal_is_completed", "processing", {"completed_at": "now"}),
    ("django_jobs_terminal_is_completed", "completed", {"due_at": "now"}),
    ("django_jobs_terminal_is_completed", "completed", {"completed_at": None}),
    ("django_jobs_terminal_is_completed", "partial", {"due_at": "now"}),
    ("django_jobs_terminal_is_completed", "partial", {"completed_at": None}),
    ("django_jobs_terminal_is_completed", "failed", {"due_at": "now"}),
    ("django_jobs_terminal_is_completed", "failed", {"completed_at": None}),
    ("django_jobs_failed_has_reason", "failed", {"error_message": ""}),
    ("django_jobs_failed_has_reason", "failed", {"failure_code": ""}),
    ("django_jobs_completed_is_whole", "completed", {"progress": 99}),
    ("django_jobs_completed_is_whole", "completed", {"error_message": "No disk."}),
    ("django_jobs_completed_is_whole", "completed", {"failure_code": "handler_error"}),
    ("django_jobs_partial_is_done", "partial", {"progress": 99}),
    ("django_jobs_valid_counts", "queued", {"attempt": -1}),
    ("django_jobs_valid_counts", "queued", {"max_attempts": 0}),
    ("django_jobs_valid_counts", "queued", {"items_total": -1}),
    ("django_jobs_valid_counts", "queued", {"items_succeeded": -1}),
    ("django_jobs_valid_counts", "queued", {"items_failed": -1}),
    ("django_jobs_valid_counts", "queued", {"version": -1}),
    ("django_jobs_valid_priority", "queued", {"priority": -101}),
    ("django_jobs_valid_priority", "queued", {"priority": 101}),
]
# The other side of the borders.
POSSIBLE = [
    ("processing", {"progress": 0}),
    ("processing", {"progress": 100}),
    ("processing", {"worker": ""}),
    ("partial", {"error_message": "One row was bad.", "failure_code": "some_items_failed"}),
    ("failed", {"progress": 100}),
    ("queued", {"max_attempts": 1, "attempt": 0, "version": 0}),
    ("queued", {"priority": -100}),
    ("queued", {"priority": 100}),
    ("queued", {"idempotency_key": None}),
]


def insert(model, **values):
    """Insert a row in raw SQL, columns without a value at the default of their field."""
    values = {name: clock.now() if value == "now" else value for name, value in values.items()}
    row = {
        field.column: field.get_db_prep_save(
            values.pop(field.attname, field.get_default()), connection
        )
        for field in model._meta.concrete_fields
        if not field.generated
    }
    assert not values, f"no such columns: {values}"
    columns = ", ".join(connection.ops.quote_name(column) for column in row)
    marks = ", ".join(["%s"] * len(row))
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {model._meta.db_table} ({columns}) VALUES ({marks})", list(row.values())
        )


@pytest.fixture
def insert_job(user):
    def insert_one(status, **changes):
        values = {
            "id": uuid7(),
            "user_id": user.pk,
            "job_type": "report",
            "status": status,
            "due_at": "now",
            "completed_at": "now",
            **VALID.get(status, {}),
            **changes,
        }
        insert(Job, **values)
        return values["id"]

    return insert_one


@pytest.fixture
def insert_asset(user):
    def insert_one(job_id, **changes):
        asset = {"job_id": job_id, "user_id": user.pk, "asset_type": "image", "name": "a.png"}
        insert(Asset, **{**asset, **changes})

    return insert_one


@pytest.mark.parametrize("status", JobStatus.values)
def test_a_row_as_it_should_be_is_accepted(insert_job, status):
    key = insert_job(status)
    assert Job.objects.get(pk=key).status == status


@pytest.mark.parametrize(("status", "changes"), POSSIBLE)
def test_a_row_at_the_border_is_accepted(insert_job, status, changes):
    insert_job(status, **changes)


@pytest.mark.parametrize(("constraint", "status", "changes"), IMPOSSIBLE)
def test_an_impossible_row_is_refused_by_name(insert_job, constraint, status, changes):
    with pytest.raises(IntegrityError, match=rf"\b{constraint}\b"):
        insert_job(status, **changes)
    assert not Job.objects.exists()


@pytest.mark.parametrize(("constraint", "status", "changes"), IMPOSSIBLE)
def test_a_row_cannot_be_made_impossible(insert_job, constraint, status, changes):
    key = insert_job(status)
    changes = {name: clock.now() if value == "now" else value for name, value in changes.items()}
    with pytest.raises(IntegrityError, match=rf"\b{constraint}\b"), transaction.atomic():
        Job.objects.filter(pk=key).guarded_update(**changes)


@pytest.mark.parametrize(
    "status",
    [
        "",
        "paused",
        "Queued",
        "COMPLETED",
        "queued ",
    ],
)
def test_an_unknown_state_is_refused_by_name(insert_job, status):
    # A state that is unknown is neither live nor terminal: two constraints refuse it.
    names = r"\bdjango_jobs_(valid_status|terminal_is_completed)\b"
    for changes in ({"completed_at": None, "worker": "x"}, {"due_at": None, "worker": "x"}):
        with pytest.raises(IntegrityError, match=names):
            insert_job(status, **changes)


def test_every_constraint_is_in_the_database_under_its_name():
    for model in (Job, Asset, JobTransition):
        with connection.cursor() as cursor:
            found = connection.introspection.get_constraints(cursor, model._meta.db_table)
        declared = {each.name for each in (*model._meta.constraints, *model._meta.indexes)}
        assert declared <= set(found)
        ours = {name for name in found if name.startswith("django_jobs_") and name in declared}
        assert ours == declared


def test_every_check_of_the_job_is_tried_here():
    tried = {constraint for constraint, _, _ in IMPOSSIBLE}
    tried |= {"django_jobs_valid_status", "django_jobs_idempotency_key"}
    assert tried == {constraint.name for constraint in Job._meta.constraints}


def named(constraint, *columns):
    """What the error for a unique constraint says: its name, on SQLite its columns."""
    if connection.vendor == "sqlite":
        return ", ".join(columns)
    return rf"\b{constraint}\b"


def test_a_user_has_an_idempotency_key_once(insert_job, other_user):
    insert_job("queued", idempotency_key="a")
    insert_job("queued", idempotency_key="a", user_id=other_user.pk)
    error = named("django_jobs_idempotency_key", "job.idempotency_key", "django_jobs_job.user_id")
    with pytest.raises(IntegrityError, match=error):
        insert_job("completed", idempotency_key="a")


def test_any_number_of_jobs_have_no_idempotency_key(insert_job):
    for _ in range(3):
        insert_job("queued", idempotency_key=None)


@pytest.mark.parametrize("other", ["A", "a ", "á", " a"])
def test_an_idempotency_key_means_itself_exactly(insert_job, other):
    key = insert_job("queued", idempotency_key="a")
    other_key = insert_job("queued", idempotency_key=other)
    assert Job.objects.get(idempotency_key="a").pk == key
    assert Job.objects.get(idempotency_key=other).pk == other_key


@pytest.mark.parametrize("column", ["job_type", "queue", "worker"])
@pytest.mark.parametrize("other", ["A", "a ", "á"])
def test_a_name_means_itself_exactly(insert_job, column, other):
    key = insert_job("processing", **{column: "a"})
    insert_job("processing", **{column: other})
    assert Job.objects.get(**{column: "a"}).pk == key


@pytest.mark.parametrize("other", ["A.png", "a.png ", "á.png"])
def test_the_name_of_an_asset_means_itself_exactly(insert_job, insert_asset, other):
    job_id = insert_job("processing")
    insert_asset(job_id, id=uuid7())
    insert_asset(job_id, id=uuid7(), name=other)
    assert Asset.objects.filter(name="a.png").count() == 1


def test_a_job_has_an_asset_of_a_name_once(insert_job, insert_asset):
    job_id, other_id = insert_job("processing"), insert_job("processing")
    insert_asset(job_id)
    insert_asset(other_id)
    with pytest.raises(IntegrityError, match=named("django_jobs_asset_name", "job_id", ".*name")):
        insert_asset(job_id)


def test_the_size_of_an_asset_is_not_negative(insert_job, insert_asset):
    job_id = insert_job("processing")
    insert_asset(job_id, name="empty", file_size=0)
    insert_asset(job_id, name="big", file_size=2**62)
    with pytest.raises(IntegrityError, match=r"\bdjango_jobs_valid_file_size\b"):
        insert_asset(job_id, name="less", file_size=-1)


@pytest.mark.django_db(transaction=True)
def test_the_log_and_the_assets_of_no_job_are_refused(user, insert_asset):
    nowhere = uuid7()
    with pytest.raises(IntegrityError):
        insert_asset(nowhere)
    with pytest.raises(IntegrityError):
        insert(JobTransition, job_id=nowhere, to_status="queued", from_status="", code="")
    with pytest.raises(IntegrityError):
        insert(Job, user_id=user.pk, job_type="a", due_at=clock.now(), retry_of_id=nowhere)


@pytest.mark.django_db(transaction=True)
def test_a_job_cannot_be_deleted_from_under_its_log(user):
    job = make_job(user)
    table, key = Job._meta.db_table, Job._meta.pk.get_db_prep_value(job.pk, connection)
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {table} WHERE id = %s", [key])
    assert Job.objects.filter(pk=job.pk).exists()


def test_the_moments_of_a_row_are_kept_to_the_microsecond(insert_job):
    moment = clock.now().replace(microsecond=123456) + dt.timedelta(days=1)
    key = insert_job("queued", due_at=moment)
    assert Job.objects.get(pk=key).due_at == moment
