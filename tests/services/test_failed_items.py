import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import storages
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_jobs.exceptions import JobNotRetryable
from django_jobs.models import Asset, Job
from django_jobs.services import retry_job
from django_jobs.services.failed_items import IN_ROW, check_failed_items, names_of_failed_items
from django_jobs.services.obstacles import obstacle_to_retry_of_failed
from django_jobs.testing import make_job, run_due_jobs

pytestmark = pytest.mark.django_db


@pytest.fixture
def kind(handler):
    """A type whose items are the numbers below "count"; the odd ones fail at first."""
    done = []

    def work(job):
        names = job.failed_items
        if names is None:
            names = [str(number) for number in range(job.parameters["count"])]
        for name in names:
            with job.item(name):
                done.append(name)
                if int(name) % 2 and job.failed_items is None:
                    raise ValueError("odd")
        return {"done": len(names)}

    name = handler(work, retry_failed_items=True)
    return name, done


@pytest.fixture
def partial(user, kind):
    """Run a job of ``count`` items, half of which fail."""

    def partial(count):
        job = make_job(user, job_type=kind[0], parameters={"count": count})
        run_due_jobs()
        job.refresh_from_db()
        assert job.status == "partial"
        return job

    return partial


def odd(count):
    return [str(number) for number in range(1, count, 2)]


@pytest.mark.parametrize("count", [6, 2 * IN_ROW, 2 * IN_ROW + 2, 1000])
def test_the_retry_is_about_the_failed_items_few_or_many(user, kind, partial, count):
    job = partial(count)
    kind[1].clear()

    again = retry_job(job.pk, actor=user, only_failed=True)
    job.refresh_from_db()
    job.assets.all().delete()  # from here on the retry has no need of them
    run_due_jobs()

    again.refresh_from_db()
    assert again.items_to_retry == odd(count) == kind[1]
    assert (again.status, again.retry_of, again.parameters) == ("completed", job, {"count": count})
    assert (again.items_total, again.result) == (count // 2, {"done": count // 2})
    assert len(job.failed_items) == min(count // 2, IN_ROW)


def test_a_retry_of_that_retry_is_about_the_same_items(user, partial):
    again = retry_job(partial(6).pk, actor=user, only_failed=True)
    again.start(worker="h/m/1/1/a", lease=30)
    again.fail("out of paper")
    again.save()

    third = retry_job(again.pk, actor=user)

    assert third.items_to_retry == odd(6)


def test_a_retry_of_the_whole_job_is_about_all_items(user, partial):
    assert retry_job(partial(6).pk, actor=user).items_to_retry is None


def test_an_item_that_failed_twice_is_named_once(partial):
    job = partial(4)
    items = [{"name": "a", "error": "x"}, {"name": "a", "error": "y"}]
    Job.objects.filter(pk=job.pk).update(failed_items=items, items_failed=2)
    job.refresh_from_db()

    assert names_of_failed_items(job) == ["a"]


def test_all_items_of_a_failed_job_are_its_failed_ones(user, handler):
    def work(job):
        for name in "ab":
            with job.item(name):
                raise ValueError("odd")

    job = make_job(user, job_type=handler(work, retry_failed_items=True))
    run_due_jobs()
    job.refresh_from_db()

    assert job.status == "failed"
    assert names_of_failed_items(job) == ["a", "b"]


# -- what cannot be retried so -----------------------------------------------------------------


def refused(job, user, nothing_written, match):
    job.refresh_from_db()
    with nothing_written(), pytest.raises(JobNotRetryable, match=match):
        retry_job(job.pk, actor=user, only_failed=True)
    return job


def test_a_type_says_that_it_can(user, external_type, handler, nothing_written):
    for name in (external_type, handler(lambda job: None)):
        job = make_job(user, "partial", job_type=name)
        refused(job, user, nothing_written, f"type {name} cannot retry the failed items alone")
        assert "cannot retry" in obstacle_to_retry_of_failed(job)


@pytest.mark.parametrize("code", ["handler_error", "timed_out", "worker_lost", "cancelled"])
def test_a_job_that_did_not_come_to_the_end_of_its_items(user, kind, nothing_written, code):
    job = make_job(user, "failed", job_type=kind[0], failure_code=code)
    Job.objects.filter(pk=job.pk).update(items_failed=1, failed_items=[{"name": "a", "error": "x"}])

    refused(job, user, nothing_written, "did not come to the end of its items")


def test_a_job_that_is_partial_for_another_reason(user, kind, nothing_written):
    job = make_job(user, "partial", job_type=kind[0])

    job = refused(job, user, nothing_written, "has no failed items")
    assert "has no failed items" in obstacle_to_retry_of_failed(job)


@pytest.mark.parametrize("where", ["row", "list"])
def test_a_name_that_could_not_be_kept(user, kind, partial, nothing_written, where):
    if where == "row":
        job = partial(4)
        items = [{"name": "n", "error": "x", "cut": True}] * 2
        Job.objects.filter(pk=job.pk).update(failed_items=items)
    else:
        job = partial(1000)
        rewrite_list(job, b'{"name": "n", "error": "x", "cut": true}\n' * 500)

    refused(job, user, nothing_written, "has a name that cannot be given to a retry")


def rewrite_list(job, content):
    asset = job.assets.get()
    storages[asset.storage].delete(asset.storage_path)
    asset.storage_path = storages[asset.storage].save(asset.storage_path, ContentFile(content))
    asset.save()


def test_more_names_than_parameters_may_have_bytes(user, partial, nothing_written, settings):
    job = partial(1000)
    settings.DJANGO_JOBS = {**settings.DJANGO_JOBS, "MAX_PARAMETERS_BYTES": 3000}

    refused(job, user, nothing_written, "has too many failed items")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no JSON\n",
        b"[]\n" * 500,
        b'{"error": "x"}\n' * 500,
        b"\xff\n",
        b'{"name": "a", "error": "x"}\n' * 499,
    ],
)
def test_a_list_that_is_not_whole(user, partial, nothing_written, content):
    job = partial(1000)
    rewrite_list(job, content)

    refused(job, user, nothing_written, "list of the failed items of job .* cannot be read")


def test_a_list_whose_file_is_gone(user, partial, nothing_written):
    job = partial(1000)
    asset = job.assets.get()
    storages[asset.storage].delete(asset.storage_path)

    refused(job, user, nothing_written, "cannot be read")


@pytest.mark.parametrize(
    "change", [{"name": "other"}, {"asset_type": "other"}, {"attempt": 7}, {"storage": ""}]
)
def test_another_asset_is_not_the_list(user, partial, nothing_written, change):
    job = partial(1000)
    Asset.objects.filter(job=job).update(**change)

    job = refused(job, user, nothing_written, "cannot be read")
    assert "cannot be read" in obstacle_to_retry_of_failed(job)


def test_the_question_whether_it_can_reads_no_file(partial, monkeypatch):
    few, many = partial(6), partial(1000)
    monkeypatch.delattr("django.core.files.storage.Storage.open")

    with CaptureQueriesContext(connection) as captured:
        check_failed_items(few)
        check_failed_items(many)
    assert len(captured) == 1
    assert obstacle_to_retry_of_failed(many) == ""
