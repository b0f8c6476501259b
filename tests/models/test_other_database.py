"""A host whose router keeps the jobs in a database of their own."""

import pytest

from django_jobs.exceptions import TooManyActiveJobs
from django_jobs.handlers import register_job_type
from django_jobs.models import Asset, Job, JobTransition
from django_jobs.services import (
    cancel_job,
    create_asset,
    create_job,
    create_jobs,
    get_job,
    get_job_assets,
    mark_completed,
    retry_job,
    transition_status,
    update_progress,
)
from django_jobs.testing import make_job, run_due_jobs
from tests.conftest import create_user
from tests.stored import Statements

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


@pytest.fixture
def owner(settings):
    """A user who is in the other database too, where the jobs are."""
    user = create_user()
    user.save(using="other", force_insert=True)
    settings.DATABASE_ROUTERS = ["tests.routers.JobsElsewhere"]
    return user


@pytest.fixture
def nothing_here(owner):
    """The default database is left alone."""
    with Statements("default") as statements:
        yield
    assert statements.sent == []
    for model in (Job, JobTransition, Asset):
        assert not model.objects.using("default").exists()


def test_a_job_is_run_where_it_is_kept(owner, nothing_here, handler):
    def work(job):
        assert job.user.pk == owner.pk
        for name in job.track(["a", "b"]):
            with job.item(name):
                if name == "b":
                    raise ValueError("bad")
        assert not job.cancel_requested
        job.save_asset("a.txt", "hello", "text")
        return {"rows": 1}

    job = create_job(owner, handler(work), {"path": "a"})

    job = get_job(job.pk, owner)
    assert (job.status, job.result) == ("partial", {"rows": 1})
    assert [asset.name for asset in get_job_assets(job.pk, owner)] == ["a.txt"]
    assert job.transitions.count() == 3
    again = retry_job(job.pk, actor=owner)
    again.refresh_from_db()
    assert (again.status, again.retry_of_id) == ("partial", job.pk)


def test_a_job_is_driven_where_it_is_kept(owner, nothing_here, external_type):
    job = create_job(owner, external_type, idempotency_key="monday")
    assert create_job(owner, external_type, idempotency_key="monday").pk == job.pk
    transition_status(job.pk, "processing")
    update_progress(job.pk, 50, message="halfway")
    create_asset(job.pk, owner, "image", "https://example.org/a.png", "", 5)
    mark_completed(job.pk, {"rows": 3})

    job.refresh_from_db()
    assert (job.status, job.result) == ("completed", {"rows": 3})
    assert job._state.db == "other"


def test_a_job_is_cancelled_where_it_is_kept(owner, nothing_here, external_type):
    waiting, running = create_jobs(owner, external_type, [{}, {}])
    transition_status(running.pk, "processing", actor=owner)
    assert cancel_job(waiting.pk, actor=owner).status == "failed"
    assert cancel_job(running.pk, actor=owner).cancel_requested_by_id == owner.pk
    assert [entry.actor_id for entry in running.transitions.order_by("id")] == [owner.pk] * 3


def test_jobs_are_counted_where_they_are_kept(owner, nothing_here):
    register_job_type("one at a time", max_active_per_user=1)
    create_job(owner, "one at a time")
    with pytest.raises(TooManyActiveJobs):
        create_job(owner, "one at a time")


def test_due_jobs_are_run_where_they_are_kept(owner, nothing_here, handler):
    job = make_job(owner, job_type=handler(lambda job: {"rows": 1}))
    assert [done.pk for done in run_due_jobs()] == [job.pk]
    assert Job.objects.get(pk=job.pk).status == "completed"


def test_a_job_can_be_kept_elsewhere_without_a_router(owner, settings, handler):
    settings.DATABASE_ROUTERS = []
    job = Job(user_id=owner.pk, job_type=handler(lambda job: {"rows": 1}))
    job.save(using="other")
    [done] = run_due_jobs(using="other")
    assert (done.pk, done.status) == (job.pk, "completed")
    assert not Job.objects.exists()
    assert done.transitions.count() == 3
