import pytest

from django_jobs.services import (
    cancel_job,
    create_asset,
    create_job,
    get_job_assets,
    mark_completed,
    retry_job,
    transition_status,
    update_progress,
)

pytestmark = pytest.mark.django_db(transaction=True)


def test_it(user, handler):
    def f(job):
        for i in job.track(range(3), "x"):
            with job.item(str(i)):
                if i == 1:
                    raise ValueError("bad")
        job.save_asset("a.txt", "hello", "text")
        return {"n": 1}

    t = handler(f)
    job = create_job(user, t, {"a": 1})
    job.refresh_from_db()
    assert (job.status, job.progress, job.error_message) == (
        "partial",
        100,
        "1 of 3 items failed.\n1: ValueError: bad",
    )
    assert [x.to_status for x in job.transitions.order_by("id")] == [
        "queued",
        "processing",
        "partial",
    ]
    assert job.result == {"n": 1}
    assert [a.name for a in get_job_assets(job.id, user)] == ["a.txt"]


def test_external(user, external_type):
    job = create_job(user, external_type)
    transition_status(job.id, "processing", progress=0)
    update_progress(job.id, 25)
    create_asset(job.id, user, "image", "https://x.org/a.png", "u/j/a.png", 5)
    j = mark_completed(job.id, {"assetCount": 1})
    assert j.status == "completed" and j.progress == 100


def test_cancel(user, external_type):
    job = create_job(user, external_type)
    j = cancel_job(job.id, actor=user)
    assert j.failure_code == "cancelled" and j.attempt == 0 and j.started_at is None
    k = retry_job(j.id, actor=user)
    assert k.retry_of_id == j.id
