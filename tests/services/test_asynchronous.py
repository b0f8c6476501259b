import inspect

import pytest
from asgiref.sync import async_to_sync

from django_jobs import services
from django_jobs.exceptions import (
    InvalidParameters,
    InvalidStateTransitionError,
    JobAccessDenied,
    JobNotFound,
)
from django_jobs.models import Job

TWINS = [
    "create_job",
    "create_jobs",
    "get_job",
    "get_job_assets",
    "transition_status",
    "update_progress",
    "mark_completed",
    "mark_partial",
    "mark_failed",
    "create_asset",
    "cancel_job",
    "retry_job",
]


def run(coroutine_function, *args, **kwargs):
    return async_to_sync(coroutine_function)(*args, **kwargs)


@pytest.mark.parametrize("name", TWINS)
def test_a_service_and_its_twin_take_the_same(name):
    service, twin = getattr(services, name), getattr(services, f"a{name}")

    assert inspect.iscoroutinefunction(twin)
    assert not inspect.iscoroutinefunction(service)
    assert inspect.signature(twin) == inspect.signature(service)
    assert twin.__doc__ == service.__doc__
    assert twin.__name__ == twin.__qualname__ == f"a{name}"


def test_every_service_has_a_twin_and_there_is_nothing_else():
    assert sorted(services.__all__) == sorted([*TWINS, *(f"a{name}" for name in TWINS)])


@pytest.mark.django_db(transaction=True)
def test_a_job_can_be_driven_from_async_code(user, external_type):
    async def drive():
        job = await services.acreate_job(user, external_type, {"a": 1}, priority=3)
        await services.atransition_status(job.id, "processing", progress=0)
        await services.aupdate_progress(job.id, 25, message="reading")
        await services.acreate_asset(job.id, user, "image", "https://x.org/a", "a.png", 5)
        await services.amark_completed(job.id, {"n": 1})
        found = await services.aget_job(job.id, user)
        return found, await services.aget_job_assets(job.id, user)

    job, assets = run(drive)

    assert (job.status, job.result, job.priority) == ("completed", {"n": 1}, 3)
    assert job.progress_message == "reading"
    assert [asset.name for asset in assets] == ["a.png"]


@pytest.mark.django_db(transaction=True)
def test_the_other_endings_too(user, external_type):
    async def drive():
        first, second, third = await services.acreate_jobs(user, external_type, [{}, {}, {}])
        for job in (first, second):
            await services.atransition_status(job.id, "processing")
        await services.amark_partial(first.id, None, "so so")
        await services.amark_failed(second.id, "no", failure_code="timed_out")
        await services.acancel_job(third.id, actor=user, reason="enough")
        return await services.aretry_job(third.id, actor=user), third

    again, third = run(drive)

    codes = Job.objects.order_by("id").values_list("failure_code", flat=True)
    assert list(codes) == ["some_items_failed", "timed_out", "cancelled", ""]
    assert again.retry_of_id == third.pk


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda user, other, job: services.aget_job("x", user), JobNotFound),
        (lambda user, other, job: services.aget_job(job.pk, other), JobAccessDenied),
        (lambda user, other, job: services.acreate_job(user, job.job_type, []), InvalidParameters),
        (lambda user, other, job: services.amark_completed(job.pk), InvalidStateTransitionError),
        (lambda user, other, job: services.aupdate_progress(job.pk, "50"), TypeError),
    ],
    ids=["not found", "denied", "parameters", "illegal step", "no percentage"],
)
def test_errors_are_the_same(user, other_user, external_type, call, error):
    job = services.create_job(user, external_type)

    async def attempt():
        await call(user, other_user, job)

    with pytest.raises(error):
        run(attempt)


@pytest.mark.django_db(transaction=True)
def test_a_job_that_is_ordered_from_async_code_is_run(user, handler):
    async def work(job):
        jobs = [found.pk async for found in Job.objects.all()]
        return {"found": len(jobs)}

    job = run(services.acreate_job, user, handler(work))

    job.refresh_from_db()
    assert (job.status, job.result) == ("completed", {"found": 1})
