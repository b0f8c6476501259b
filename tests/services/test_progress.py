import inspect
import logging
import math
import uuid
from decimal import Decimal

import pytest

from django_jobs.exceptions import JobNotFound, LeaseLost
from django_jobs.models import Job
from django_jobs.services import update_progress
from django_jobs.services.fencing import Fence
from django_jobs.services.progress import write_progress
from django_jobs.testing import make_job
from tests.naming import readable

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("progress", "stored"), [(0, 0), (25, 25), (99.9, 99), (100, 100), (Decimal("12.5"), 12)]
)
def test_a_running_job_takes_a_percentage(driven_job, progress, stored):
    job = update_progress(driven_job.pk, progress)

    assert job.progress == stored == Job.objects.get(pk=job.pk).progress
    assert job.status == "processing"


def test_100_does_not_end_the_job(driven_job):
    job = update_progress(driven_job.pk, 100)

    assert (job.status, job.completed_at) == ("processing", None)


def test_progress_never_goes_back(driven_job):
    update_progress(driven_job.pk, 60)

    assert update_progress(driven_job.pk, 40).progress == 60
    assert Job.objects.get(pk=driven_job.pk).progress == 60


def test_progress_does_not_go_back_either_when_two_write_at_once(driven_job, monkeypatch):
    report = Job.report

    def late(job, *args):
        Job.objects.filter(pk=job.pk).update(progress=60)
        report(job, *args)

    monkeypatch.setattr(Job, "report", late)
    update_progress(driven_job.pk, 40)

    assert Job.objects.get(pk=driven_job.pk).progress == 60


def test_a_message_goes_with_it(driven_job):
    update_progress(driven_job.pk, 10, message="reading")
    assert Job.objects.get(pk=driven_job.pk).progress_message == "reading"

    update_progress(driven_job.pk, 20)
    assert Job.objects.get(pk=driven_job.pk).progress_message == "reading"

    update_progress(driven_job.pk, 30, message="")
    assert Job.objects.get(pk=driven_job.pk).progress_message == ""


def test_a_message_is_cleaned_and_cut(driven_job):
    update_progress(driven_job.pk, 10, message="a\x00" + "x" * 5000)

    message = Job.objects.get(pk=driven_job.pk).progress_message
    assert message.startswith("a\ufffdxxx")
    assert len(message) == 200


def test_what_watchers_see_changes(driven_job):
    job = update_progress(driven_job.pk, 10)

    stored = Job.objects.get(pk=driven_job.pk)
    assert stored.version == job.version == driven_job.version + 1
    assert stored.updated_at >= driven_job.updated_at


def test_the_job_that_comes_back_is_as_stored(driven_job):
    job = update_progress(driven_job.pk, 10, message="reading")

    stored = Job.objects.get(pk=driven_job.pk)
    assert {name: value for name, value in vars(job).items() if not name.startswith("_")} == {
        name: value for name, value in vars(stored).items() if not name.startswith("_")
    }


def test_it_may_be_saved_again(driven_job):
    job = update_progress(driven_job.pk, 10)
    job.complete({"a": 1})
    job.save()

    assert Job.objects.get(pk=driven_job.pk).status == "completed"


def test_an_update_is_one_statement(driven_job, django_assert_num_queries):
    with django_assert_num_queries(2):  # SELECT, UPDATE
        update_progress(driven_job.pk, 10)


# -- the lease of an outside driver ------------------------------------------------------------


def test_an_outside_driver_s_lease_is_renewed(driven_job):
    before = Job.objects.get(pk=driven_job.pk).due_at

    update_progress(driven_job.pk, 10)

    assert Job.objects.get(pk=driven_job.pk).due_at > before


def test_the_lease_of_our_own_workers_is_not(held_job):
    before = Job.objects.get(pk=held_job.pk).due_at

    update_progress(held_job.pk, 10, attempt=1)

    assert Job.objects.get(pk=held_job.pk).due_at == before


# -- outside PROCESSING ------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["queued", "completed", "partial", "failed"])
def test_a_job_that_is_not_running_stays_as_it_is_with_a_warning(
    user, status, caplog, nothing_written
):
    job = make_job(user, status)

    with nothing_written(), caplog.at_level(logging.WARNING, "django_jobs"):
        returned = update_progress(job.pk, 50, message="x")

    assert (returned.pk, returned.status) == (job.pk, status)
    assert returned.progress == job.progress
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert str(job.pk) in record.getMessage() and job.job_type in record.getMessage()
    assert f"the job is {status}" in record.getMessage()


# -- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("progress", "error"),
    [
        ("50", TypeError),
        (None, TypeError),
        (True, TypeError),
        ([], TypeError),
        (101, ValueError),
        (100.1, ValueError),
        (-1, ValueError),
        (math.nan, ValueError),
        (math.inf, ValueError),
        (Decimal("NaN"), ValueError),
    ],
    ids=readable,
)
@pytest.mark.parametrize("status", ["processing", "queued", "completed"])
def test_what_is_no_percentage_is_refused(user, status, progress, error, nothing_written):
    job = make_job(user, status)

    with nothing_written(), pytest.raises(error, match="progress must be a number from 0 to 100"):
        update_progress(job.pk, progress)


@pytest.mark.parametrize("job_id", ["x", "", None, 1, uuid.UUID(int=0)], ids=readable)
def test_an_unknown_job_is_not_found(job_id):
    with pytest.raises(JobNotFound):
        update_progress(job_id, 1)


# -- who may write -----------------------------------------------------------------------------


def test_a_job_that_one_of_our_workers_holds_is_refused(held_job, nothing_written):
    with nothing_written(), pytest.raises(LeaseLost, match="held by one of our workers"):
        update_progress(held_job.pk, 10)


def test_naming_the_open_attempt_is_enough(held_job):
    assert update_progress(held_job.pk, 10, attempt=1).progress == 10


def test_naming_another_attempt_is_refused(held_job, nothing_written):
    with nothing_written(), pytest.raises(LeaseLost, match="at attempt 1, not 2"):
        update_progress(held_job.pk, 10, attempt=2)


def test_an_attempt_that_ends_meanwhile_is_over(driven_job, monkeypatch):
    report = Job.report

    def late(job, *args):
        Job.objects.filter(pk=job.pk).update(worker="external:other")
        report(job, *args)

    monkeypatch.setattr(Job, "report", late)

    with pytest.raises(LeaseLost, match=r"Attempt 1 of job .* is over"):
        update_progress(driven_job.pk, 10)
    assert Job.objects.get(pk=driven_job.pk).progress == 0


@pytest.mark.parametrize("field", ["attempt", "worker", "job_id"])
def test_a_write_without_the_fence_matches_nothing(held_job, field, nothing_written):
    wrong = {"attempt": 2, "worker": "somebody", "job_id": uuid.UUID(int=0)}
    fence = Fence(**{**vars(Fence.of(held_job)), field: wrong[field]})

    with nothing_written():
        assert write_progress(fence, "default", 10) is False


def test_a_write_with_the_fence_matches(held_job):
    assert write_progress(Fence.of(held_job), "default", 10, progress_message="x") is True

    stored = Job.objects.get(pk=held_job.pk)
    assert (stored.progress, stored.progress_message) == (10, "x")


def test_the_signature_is_as_documented():
    parameters = inspect.signature(update_progress).parameters.values()
    bare = [parameter.replace(annotation=parameter.empty) for parameter in parameters]

    assert str(inspect.Signature(bare)) == "(job_id, progress, *, message=None, attempt=None)"
