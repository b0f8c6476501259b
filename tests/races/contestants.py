"""What the processes of a contest do: up to ``yield`` before the barrier, the rest after it."""

from django_jobs.models import Job
from django_jobs.services import (
    cancel_job,
    create_asset,
    mark_completed,
    mark_failed,
    transition_status,
    update_progress,
)


def complete_by_save(key):
    job = Job.objects.get(pk=key)
    job.complete({"rows": 3})
    yield
    job.save()


def fail_by_save(key):
    job = Job.objects.get(pk=key)
    job.report(30)
    job.fail("No disk.")
    yield
    job.save()


def complete_by_service(key):
    yield
    mark_completed(key, {"rows": 3})


def fail_by_service(key):
    yield
    mark_failed(key, "No disk.")


def start_by_save(key):
    job = Job.objects.get(pk=key)
    job.start(worker="host/machine/1/2/abcd", lease=30)
    yield
    job.save()


def start_by_service(key):
    yield
    transition_status(key, "processing")


def cancel(key):
    owner = Job.objects.select_related("user").get(pk=key).user
    yield
    cancel_job(key, actor=owner)


def report_progress(key):
    yield
    update_progress(key, 50, message="halfway")


def link_asset(key):
    owner = Job.objects.select_related("user").get(pk=key).user
    yield
    create_asset(key, owner, "image", "https://example.org/a.png", "", 5)
