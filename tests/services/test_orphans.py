import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import storages

from django_jobs.models import Asset
from django_jobs.services import files, orphans
from django_jobs.services.layout import new_path
from django_jobs.services.orphans import find_orphans
from django_jobs.testing import make_job
from tests.services.test_files import folder, save  # noqa: F401
from tests.stored import Statements

pytestmark = pytest.mark.django_db(transaction=True)


def stray(job, name="a.txt"):
    """A file of ``job`` without an asset."""
    return storages["django_jobs"].save(new_path(job, name), ContentFile(b"stray"))


def found():
    return sorted(file.path for file in find_orphans("django_jobs", "default"))


def test_without_any_files_there_are_none(db):
    assert found() == []


def test_a_file_without_an_asset_is_found(user, other_user):
    jobs = [make_job(user, "completed"), make_job(other_user, "failed")]
    for job in jobs:
        save(job)
    wanted = [stray(job) for job in jobs]

    assert found() == sorted(wanted)


def test_a_file_of_a_job_that_is_gone_is_found(user):
    job = make_job(user, "completed")
    save(job)
    path = Asset.objects.get().storage_path
    Asset.objects.all()._raw_delete("default")
    job.delete()

    assert found() == [path]


@pytest.mark.parametrize("status", ["queued", "processing"])
def test_files_of_live_jobs_are_left_alone(user, status):
    stray(make_job(user, status))

    assert found() == []


def test_whether_a_job_is_live_is_asked_before_what_it_needs(user):
    save(make_job(user, "processing"))
    stray(make_job(user, "completed"))

    with Statements() as statements:
        found()

    # the other way round, a file would be lost whose asset came, and whose job ended, in between
    assert statements.sent == ["SELECT django_jobs_job", "SELECT django_jobs_asset"]


def test_a_file_of_which_a_job_elsewhere_has_an_asset_is_needed(user):
    job = make_job(user, "completed")
    path = stray(job)
    Asset.objects.create(
        job=make_job(user), user=user, name="copy", storage="django_jobs", storage_path=path
    )

    assert found() == []


@pytest.mark.parametrize(
    "path", ["a.txt", "1/a.txt", "avatars/1/2/3.png", "{job}/1/00000000-a", "1/{job}/1/a.txt"]
)
def test_files_that_are_not_ours_are_not_looked_at(user, path):
    job = make_job(user, "completed")
    storages["django_jobs"].save(path.format(job=job.pk), ContentFile(b"foreign"))

    assert found() == []


def test_many_files_are_looked_up_together(user, monkeypatch):
    monkeypatch.setattr(orphans, "LOOKED_UP", 4)
    wanted = [stray(make_job(user, "completed")) for _ in range(10)]

    with Statements() as statements:
        assert found() == sorted(wanted)
    assert len(statements.sent) == 6


def test_what_was_found_can_be_removed(user, folder):  # noqa: F811
    job = make_job(user, "completed")
    stray(job)

    assert [files.remove(file) for file in find_orphans("django_jobs", "default")] == [True]
    assert found() == []
    assert not (folder / str(user.pk) / str(job.pk)).exists()


def test_an_object_store_is_searched_too(user, settings):
    settings.STORAGES = {
        **settings.STORAGES,
        "django_jobs": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
    }
    path = stray(make_job(user, "completed"))

    assert found() == [path]
