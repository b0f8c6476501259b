import inspect
import uuid
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import AnonymousUser

from django_jobs.exceptions import JobAccessDenied, JobNotFound
from django_jobs.models import Job
from django_jobs.services import create_asset, get_job, get_job_assets
from django_jobs.testing import make_job

pytestmark = pytest.mark.django_db

READERS = [get_job, get_job_assets]


@pytest.mark.parametrize("form", [lambda key: key, str, lambda key: key.hex], ids=range(3))
@pytest.mark.parametrize("reader", READERS)
def test_a_user_finds_their_own_job(user, reader, form):
    job = make_job(user)

    assert reader(form(job.pk), user) == (job if reader is get_job else [])


def test_a_job_is_found_as_it_is_now(user):
    job = make_job(user)
    Job.objects.filter(pk=job.pk).update(progress_message="changed")

    assert get_job(job.pk, user).progress_message == "changed"


@pytest.mark.parametrize("reader", READERS)
def test_the_job_of_somebody_else_is_denied(user, other_user, reader):
    job = make_job(user)

    with pytest.raises(JobAccessDenied, match="belongs to somebody else"):
        reader(job.pk, other_user)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "visitor", [AnonymousUser(), SimpleNamespace(pk=None), SimpleNamespace(pk="1 OR 1=1")], ids=str
)
def test_a_visitor_is_denied(user, reader, visitor):
    job = make_job(user)

    with pytest.raises(JobAccessDenied):
        reader(job.pk, visitor)


@pytest.mark.parametrize("reader", READERS)
def test_a_job_that_does_not_exist_is_not_found(user, reader):
    key = uuid.uuid4()

    with pytest.raises(JobNotFound, match=str(key)):
        reader(key, user)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "job_id",
    ["", "x", "1", 1, None, b"x", [], object, "x" * 5000, "\x00", "0" * 33, 1.5, True],
    ids=lambda job_id: repr(job_id)[:20],
)
def test_what_is_no_id_is_not_found(user, reader, job_id):
    with pytest.raises(JobNotFound, match="is not the id of a job") as raised:
        reader(job_id, user)

    assert len(str(raised.value)) < 100


def test_assets_come_in_the_order_of_their_making(user, driven_job):
    names = ["b", "a", "c"]
    for name in names:
        create_asset(driven_job.pk, user, "file", "", name, 1)

    assert [asset.name for asset in get_job_assets(driven_job.pk, user)] == names


def test_assets_of_other_jobs_are_not_among_them(user, driven_job):
    create_asset(driven_job.pk, user, "file", "", "a", 1)

    assert get_job_assets(make_job(user, "processing").pk, user) == []


@pytest.mark.parametrize("reader", READERS)
def test_the_signatures_are_as_documented(reader):
    assert list(inspect.signature(reader).parameters) == ["job_id", "user"]
