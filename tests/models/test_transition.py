import datetime as dt
import time
import uuid

import pytest
from django.db import IntegrityError, transaction

from django_jobs.exceptions import JobsError
from django_jobs.models import Asset, Job, JobStatus, JobTransition, clock
from django_jobs.models.fields import uuid7
from django_jobs.testing import make_job
from tests.stored import log_of, steps_of

pytestmark = pytest.mark.django_db


def test_a_line_of_the_log_is_not_changed(user):
    job = make_job(user, JobStatus.FAILED)
    before = log_of(job)
    for entry in job.transitions.all():
        entry.message = "It was not me."
        with pytest.raises(JobsError, match="only grows"):
            entry.save()
        with pytest.raises(JobsError, match="only grows"):
            entry.save(update_fields=["message"])
    assert log_of(job) == before


def test_lines_of_the_log_are_not_changed_in_bulk(user):
    job = make_job(user, JobStatus.FAILED)
    entries, before = list(job.transitions.all()), log_of(job)
    for many in (JobTransition.objects, JobTransition.objects.filter(job=job), job.transitions):
        with pytest.raises(JobsError, match="only grows"):
            many.update(message="It was not me.")
        with pytest.raises(JobsError, match="only grows"):
            many.bulk_update(entries, ["message"])
        with pytest.raises(JobsError, match="only grows"), transaction.atomic():
            many.update_or_create(pk=entries[0].pk, defaults={"message": "It was not me."})
    assert log_of(job) == before


def test_lines_of_the_log_are_not_overwritten_by_new_ones(user):
    job = make_job(user)
    before = log_of(job)
    forged = JobTransition(pk=before[0]["id"], job=job, to_status="failed")
    with pytest.raises(IntegrityError), transaction.atomic():
        forged.save()
    with pytest.raises(JobsError, match="only grows"), transaction.atomic():
        JobTransition.objects.bulk_create(
            [forged],
            update_conflicts=True,
            update_fields=["to_status"],
            unique_fields=["id"],
        )
    assert log_of(job) == before


def test_the_log_goes_with_its_job(user):
    job, kept = make_job(user, JobStatus.FAILED), make_job(user)
    job.delete()
    assert set(JobTransition.objects.values_list("job_id", flat=True)) == {kept.pk}


def test_the_log_outlives_its_actors(user, other_user):
    job = make_job(user)
    job.start(actor=other_user)
    job.save()
    other_user.delete()
    assert [entry["actor_id"] for entry in log_of(job)] == [user.pk, None]


def test_a_line_of_the_log_reads_as_a_step(user):
    job = make_job(user, JobStatus.PROCESSING)
    assert [str(entry) for entry in job.transitions.order_by("id")] == [
        "- → queued",
        "queued → processing",
    ]


@pytest.mark.parametrize("status", JobStatus)
def test_the_log_can_be_replayed_to_the_row(user, status):
    job = make_job(user, status)
    entries = list(job.transitions.order_by("id"))
    assert [entry.from_status for entry in entries] == ["", *[e.to_status for e in entries[:-1]]]
    assert entries[-1].to_status == status


@pytest.mark.parametrize("seconds", [-20, 20])
def test_the_log_is_in_order_though_the_clocks_of_its_hosts_differ(user, monkeypatch, seconds):
    job = make_job(user)
    monkeypatch.setattr(time, "time_ns", lambda: int((time.time() + seconds) * 1e9))
    job.start(worker="elsewhere", lease=30)
    job.save()
    monkeypatch.undo()
    job.complete()
    job.save()
    assert steps_of(job) == ["queued", "processing", "completed"]
    times = [entry["created_at"] for entry in log_of(job)]
    assert times == sorted(set(times))


def test_the_log_is_in_order_though_the_clock_of_the_database_went_back(user, monkeypatch):
    job = make_job(user)
    earlier = clock.now() - dt.timedelta(seconds=20)
    monkeypatch.setattr(clock, "now", lambda using=None: earlier)
    job.start(worker="somebody", lease=30)
    job.save()
    job.fail("no")
    job.save()
    assert steps_of(job) == ["queued", "processing", "failed"]
    times = [entry["created_at"] for entry in log_of(job)]
    assert times == sorted(set(times))
    assert job.created_at < job.started_at < job.completed_at


def test_the_keys_of_the_log_sort_by_age(user):
    job = make_job(user)
    keys = [entry.pk for entry in JobTransition.objects.bulk_create(lines_of(job, 1000))]
    found = JobTransition.objects.filter(to_status="processing").order_by("id")
    assert list(found.values_list("pk", flat=True)) == keys


def lines_of(job, number):
    return [JobTransition(job=job, to_status="processing") for _ in range(number)]


@pytest.mark.parametrize("model", [Job, JobTransition, Asset])
def test_the_keys_of_all_rows_are_uuids_of_version_7(model):
    assert model().pk.version == 7


def test_the_database_sorts_keys_as_python_does(user):
    # MariaDB swaps the bytes of UUIDs of other versions.
    jobs = [Job(user=user, job_type="report") for _ in range(1000)]
    made_far_apart = [
        Job(pk=uuid.UUID(int=uuid7().int ^ (1 << bit)), user=user, job_type="report")
        for bit in (80, 90, 100, 110, 120, 126)
    ]
    Job.objects.bulk_create([*jobs, *made_far_apart], batch_size=500)
    found = list(Job.objects.order_by("id").values_list("pk", flat=True))
    assert found == sorted(found)
    assert [key for key in found if key in {job.pk for job in jobs}] == [job.pk for job in jobs]
