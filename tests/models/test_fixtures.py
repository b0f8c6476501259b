import datetime as dt

import pytest
from django.core.management import call_command

from django_jobs.models import Asset, Job, JobStatus, JobTransition
from django_jobs.signals import job_transitioned
from django_jobs.testing import make_job

pytestmark = pytest.mark.django_db


def all_rows():
    return {model: list(model.objects.order_by("id").values()) for model in MODELS}


MODELS = (Job, JobTransition, Asset)


def to_milliseconds(rows):
    """Cut the moments as JSON does (``DjangoJSONEncoder``)."""
    for row in rows:
        for name, value in row.items():
            if isinstance(value, dt.datetime):
                row[name] = value.replace(microsecond=value.microsecond // 1000 * 1000)
    return rows


@pytest.fixture
def rows(user, handler):
    """Jobs in all states, one of them a retry, with handler, log and assets."""
    job_type = handler(lambda job: pytest.fail("a fixture is no order"))
    jobs = {status: make_job(user, status, job_type=job_type) for status in JobStatus}
    make_job(
        user,
        retry_of=jobs[JobStatus.FAILED],
        parameters={"path": "é.png"},
        idempotency_key="monday",
    )
    Asset.objects.create(
        job=jobs[JobStatus.COMPLETED], user=user, asset_type="image", name="a.png", file_size=5
    )
    return all_rows()


@pytest.mark.parametrize("kind", ["json", "jsonl", "xml"])
def test_jobs_go_through_a_fixture_unharmed(
    rows, kind, tmp_path, django_capture_on_commit_callbacks
):
    fixture = tmp_path / f"jobs.{kind}"
    call_command("dumpdata", "django_jobs", format=kind, output=str(fixture), verbosity=0)
    Job.objects.all().delete()
    assert not any(all_rows().values())

    with django_capture_on_commit_callbacks() as callbacks:
        call_command("loaddata", str(fixture), verbosity=0)

    assert callbacks == []  # nothing is enqueued
    found = all_rows()
    for model in MODELS:
        if kind != "xml":
            to_milliseconds(rows[model])
        assert found[model] == rows[model]


def test_loading_a_fixture_tells_nobody_and_the_jobs_go_on(rows, tmp_path):
    told = []

    def listen(transition, **kwargs):
        told.append(transition)

    fixture = tmp_path / "jobs.xml"
    call_command("dumpdata", "django_jobs", format="xml", output=str(fixture), verbosity=0)
    Job.objects.all().delete()
    job_transitioned.connect(listen)
    try:
        call_command("loaddata", str(fixture), verbosity=0)
    finally:
        job_transitioned.disconnect(listen)
    assert told == []

    job = Job.objects.get(status="queued", retry_of=None)
    with pytest.raises(AttributeError):
        job.status = "completed"
    job.start()
    job.save()
    assert job.transitions.count() == 2
