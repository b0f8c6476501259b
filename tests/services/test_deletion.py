import uuid

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import storages
from django.db import transaction

from django_jobs.exceptions import JobNotDeletable, JobNotFound
from django_jobs.models import Asset, Job, JobStatus, JobTransition
from django_jobs.services.deletion import delete_job
from django_jobs.states import LIVE_STATES, TERMINAL_STATES
from django_jobs.testing import make_job
from tests.stored import stored

pytestmark = pytest.mark.django_db(transaction=True)


def attach(job, storage="default"):
    path = storages["default"].save(f"{job.pk}/a.txt", ContentFile(b"a"))
    return Asset.objects.create(
        job=job, user_id=job.user_id, name="a", storage=storage, storage_path=path
    )


@pytest.mark.parametrize("status", TERMINAL_STATES)
@pytest.mark.parametrize("as_given", [lambda key: key, str])
def test_a_job_that_has_ended_goes_with_its_log_its_assets_and_their_files(user, status, as_given):
    job, other = make_job(user, status), make_job(user, status)
    asset, kept = attach(job), attach(other)

    delete_job(as_given(job.pk))

    assert Job.objects.get() == other
    assert Asset.objects.get() == kept
    assert set(JobTransition.objects.values_list("job_id", flat=True)) == {other.pk}
    assert not storages["default"].exists(asset.storage_path)
    assert storages["default"].exists(kept.storage_path)


def test_files_that_are_not_ours_stay(user):
    job = make_job(user, JobStatus.COMPLETED)
    asset = attach(job, storage="")

    delete_job(job.pk)

    assert storages["default"].exists(asset.storage_path)


def test_what_is_rolled_back_keeps_its_files(user):
    job = make_job(user, JobStatus.COMPLETED)
    asset = attach(job)

    with transaction.atomic():
        delete_job(job.pk)
        transaction.set_rollback(True)

    assert Asset.objects.get() == asset
    assert storages["default"].exists(asset.storage_path)


@pytest.mark.parametrize("status", LIVE_STATES)
def test_a_live_job_is_not_deleted(user, status):
    job = make_job(user, status)
    before = stored(job)

    with pytest.raises(JobNotDeletable, match=f"Job {job.pk} is {status}"):
        delete_job(job.pk)

    assert stored(job) == before


def test_a_retry_outlives_what_it_repeats(user):
    job = make_job(user, JobStatus.FAILED)
    again = make_job(user, retry_of=job)

    delete_job(job.pk)

    assert Job.objects.get(pk=again.pk).retry_of is None


@pytest.mark.parametrize("key", [uuid.UUID(int=1), "nonsense", None])
def test_an_absent_job_is_not_found(db, key):
    with pytest.raises(JobNotFound):
        delete_job(key)
