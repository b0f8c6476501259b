import pytest

from django_jobs.models import Asset, Job, JobStatus
from django_jobs.testing import make_job

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(user):
    return make_job(user, JobStatus.PROCESSING)


def make_asset(job, name="a.png", **fields):
    return Asset.objects.create(
        job=job, user_id=job.user_id, asset_type="image", name=name, **fields
    )


def test_an_asset_is_called_by_its_name(job):
    assert str(make_asset(job)) == "a.png"


def test_an_asset_may_be_larger_than_four_gigabytes(job):
    asset = make_asset(job, file_size=2**40)
    assert Asset.objects.get(pk=asset.pk).file_size == 2**40


def test_the_keys_of_assets_sort_by_age(job):
    names = [f"{number}.png" for number in range(20)]
    for name in names:
        make_asset(job, name)
    assert list(job.assets.order_by("id").values_list("name", flat=True)) == names


def test_assets_go_with_their_job(user, job):
    other = make_job(user)
    make_asset(job)
    kept = make_asset(other)
    job.delete()
    assert list(Asset.objects.all()) == [kept]


def test_assets_go_with_their_user(user, other_user, job):
    make_asset(job)
    kept = make_asset(make_job(other_user))
    assert user.django_jobs_assets.count() == 1
    user.delete()
    assert list(Asset.objects.all()) == [kept]
    assert Job.objects.count() == 1
