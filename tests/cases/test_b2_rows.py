"""Group B, rows: whoever writes to the row of a job, it stays whole."""

import threading
from contextlib import contextmanager

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import CheckConstraint
from django.urls import reverse

from django_jobs.exceptions import JobNotDeletable, JobsError
from django_jobs.models import Asset, Job, JobStatus, JobTransition
from django_jobs.services import cancel_job, create_job
from django_jobs.services.deletion import delete_job
from django_jobs.testing import make_job
from tests.api.callers import Caller
from tests.cases.books import check_pages, ended
from tests.clusters.processes import entries, wait_for
from tests.clusters.test_lost_workers import worker_of
from tests.conftest import create_user
from tests.races.contest import contest
from tests.races.ends import LOST, is_consistent_end
from tests.stored import log_of, row_of, steps_of, stored

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("way", ["save", "service"])
def test_b10_of_completing_and_failing_one_happens(jobs, way):
    made = jobs(JobStatus.PROCESSING, 200)

    completed, failed = contest(
        f"tests.races.contestants.complete_by_{way}",
        f"tests.races.contestants.fail_by_{way}",
        [job.pk for job in made],
    )

    for job, completion, failure in zip(made, completed, failed, strict=True):
        row = row_of(job)
        winner = JobStatus.COMPLETED if completion == "won" else JobStatus.FAILED
        loser = failure if completion == "won" else completion
        assert sorted([completion, failure]).count("won") == 1
        assert loser in LOST
        assert row["status"] == winner
        assert is_consistent_end(row)
        assert (row["version"], row["due_at"]) == (2, None)
        assert row["completed_at"] == row["updated_at"] == log_of(job)[-1]["created_at"]
        assert steps_of(job) == ["queued", "processing", winner]


def test_b12_a_row_that_others_touch_does_not_disturb_the_handler(
    cluster, user, other_user, notes, waiting, gate
):
    with cluster(workers=2):
        touched, cancelled = (create_job(user, "keeps-a-copy", waiting) for _ in range(2))
        for job in (touched, cancelled):
            worker_of(job, notes)
        note = Job.objects.get(pk=touched.pk)
        note.priority = 7
        note.save()
        cancel_job(cancelled.pk, actor=other_user, reason="not needed")
        stopped = wait_for(lambda: ended(cancelled))
        assert (stopped.status, stopped.failure_code) == ("failed", "cancelled")
        assert stopped.cancel_requested_by == other_user
        gate.touch()
        done = wait_for(lambda: ended(touched))
        end = (done.status, done.error_message, done.result)
        assert end == ("completed", "", {"priority": 7})
    assert len(entries(notes)) == 2


def test_b13_a_running_job_is_not_deleted_by_people(cluster, user, client, notes, waiting, gate):
    with cluster(workers=1):
        job = create_job(user, "wait", waiting)
        worker_of(job, notes)
        assert Caller(user).delete("job-detail", job.pk).status_code == 409
        client.force_login(create_user(is_staff=True, is_superuser=True))
        page = reverse("admin:django_jobs_job_delete", args=[job.pk])
        assert client.post(page, {"post": "yes"}).status_code < 500
        action = {"action": "delete_selected", "_selected_action": [str(job.pk)], "post": "yes"}
        response = client.post(reverse("admin:django_jobs_job_changelist"), action)
        assert response.status_code < 500
        with pytest.raises(JobNotDeletable):
            delete_job(job.pk)
        gate.touch()
        assert wait_for(lambda: ended(job)).status == "completed"


@pytest.mark.parametrize("notices", [True, False])
def test_b13_what_a_deleted_job_reports_late_makes_no_rows(
    cluster, user, notes, waiting, gate, told, notices
):
    # with the longer tick, its keeper has not looked at the row when the handler goes on
    jobs = {"TICK": 0.5} if notices else {"TICK": 5, "LEASE": 30}
    with cluster(workers=1, jobs=jobs) as running:
        job = create_job(user, "outlives-its-row", {**waiting, "told": str(told)})
        pid = worker_of(job, notes)
        if notices:
            Job.objects.filter(pk=job.pk).delete()
            wait_for(lambda: "attempt 1 is over" in running.output(), what="its keeper noticed")
        else:
            Job.objects.get(pk=job.pk).delete()
        gate.touch()
        wait_for(lambda: told.exists() and len(told.read_text().splitlines()) == 3)
        following = create_job(user, "note", {"entries": str(notes)})
        assert wait_for(lambda: ended(following)).status == "completed"
        assert not Job.objects.filter(pk=job.pk).exists()
        assert not JobTransition.objects.filter(job_id=job.pk).exists()
        assert not Asset.objects.exists()
    assert told.read_text().splitlines() == ["file LeaseLost", "link LeaseLost", "progress taken"]
    assert [line[2] for line in entries(notes)] == [pid, pid]  # the worker lives on
    assert f"its outcome is dropped: Job {job.pk} no longer exists." in running.output()
    assert "Traceback" not in running.output()


def test_b15_no_job_takes_a_state_directly_after_a_refresh_that_failed(user):
    gone, job = make_job(user, "failed"), make_job(user, "failed")
    Job.objects.filter(pk=gone.pk).delete()
    with pytest.raises(Job.DoesNotExist):
        gone.refresh_from_db()
    for each in (gone, job):
        with pytest.raises(AttributeError):
            each.status = "completed"
        assert each.status == "failed"


def test_b15_no_job_takes_a_state_directly_while_another_thread_refreshes_it(user):
    job, other = make_job(user, "failed"), make_job(user, "failed")
    is_over = threading.Event()
    rounds = []

    def refresh():
        try:
            while not is_over.is_set() or len(rounds) < 50:
                job.refresh_from_db()
                rounds.append(1)
        finally:
            connection.close()

    thread = threading.Thread(target=refresh)
    thread.start()
    try:
        wait_for(lambda: rounds)
        for _ in range(2000):
            for each in (job, other):
                with pytest.raises(AttributeError):
                    each.status = "completed"
    finally:
        is_over.set()
        thread.join()
    assert len(rounds) >= 50
    assert (job.status, other.status) == ("failed", "failed")


BAD_ROWS = [{"status": "NONSENSE"}, {"progress": 101}, {"progress": -1}]


def test_b16_bulk_writes_go_round_no_rule(user):
    done = make_job(user, "completed", result={"rows": 3})
    waiting = make_job(user)
    before = stored(done), stored(waiting)
    both = Job.objects.filter(pk__in=[done.pk, waiting.pk])
    with pytest.raises(JobsError):
        both.update(status="NONSENSE")
    with pytest.raises(IntegrityError):
        both.update(progress=101)
    back = Job.objects.get(pk=done.pk)
    with pytest.raises(JobsError):
        Job.objects.bulk_update([back], ["status"])
    with pytest.raises(JobsError):
        Job.objects.bulk_create([Job(user=user, job_type="noop", status="completed")])
    for values in BAD_ROWS:
        with pytest.raises(IntegrityError):
            _write_raw(waiting, values)
    assert (stored(done), stored(waiting)) == before
    cancel_job(waiting.pk, actor=user)


@pytest.mark.parametrize("status", ["completed", "failed"])
@pytest.mark.parametrize(
    "values",
    [
        *BAD_ROWS,
        {"failure_code": "NONSENSE"},
        {"completed_at": None, "due_at": None},
        {"error_message": "", "failure_code": ""},
    ],
)
def test_b16_a_row_that_is_older_than_a_constraint_is_still_shown(user, values, status):
    job = make_job(user, status)
    with _without_constraints():
        _write_raw(job, values)
        check_pages(job.pk, user.pk)
        assert Caller(user).post("job-cancel", job.pk).status_code in {200, 409}


def _write_raw(job, values):
    columns = ", ".join(f"{name} = %s" for name in values)
    key = Job._meta.pk.get_db_prep_value(job.pk, connection)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {Job._meta.db_table} SET {columns} WHERE id = %s", [*values.values(), key]
        )
        assert cursor.rowcount == 1


@contextmanager
def _without_constraints():
    """Let this connection write any row, within a transaction that is rolled back."""
    off, on = {
        "sqlite": ("PRAGMA ignore_check_constraints = ON", "PRAGMA ignore_check_constraints = OFF"),
        "mysql": ("SET check_constraint_checks = 0", "SET check_constraint_checks = 1"),
        "postgresql": (
            "; ".join(
                f"ALTER TABLE {Job._meta.db_table} DROP CONSTRAINT {each.name}"
                for each in Job._meta.constraints
                if isinstance(each, CheckConstraint)
            ),
            "SELECT 1",
        ),
    }[connection.vendor]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(off)
        try:
            yield
        finally:
            transaction.set_rollback(True)
    with connection.cursor() as cursor:
        cursor.execute(on)
