"""One rule, whatever deletes an asset: its file goes after the commit, if no asset refers to it."""

import logging

import pytest
from django.contrib.auth import get_user_model
from django.core.exceptions import ImproperlyConfigured, SuspiciousFileOperation
from django.core.files.base import ContentFile
from django.core.files.storage import FileSystemStorage, InMemoryStorage, storages
from django.db import OperationalError, connection, transaction

from django_jobs.exceptions import LeaseLost
from django_jobs.models import Asset, Job
from django_jobs.models.asset import PATH_START
from django_jobs.services import create_job, files
from django_jobs.services.files import StoredFile, checked_place, remove_unneeded, root_of
from django_jobs.services.stored_assets import store
from django_jobs.testing import make_job
from tests.stored import Statements

pytestmark = pytest.mark.django_db(transaction=True)


class BrokenStorage(FileSystemStorage):
    def delete(self, name):
        raise OSError("the bucket is gone")


@pytest.fixture(autouse=True)
def folder(settings, tmp_path):
    """Where the storage "django_jobs" keeps its files."""
    use_storage(settings, "django.core.files.storage.FileSystemStorage", tmp_path / "files")
    return tmp_path / "files"


def use_storage(settings, backend, location):
    settings.STORAGES = {
        **settings.STORAGES,
        "django_jobs": {"BACKEND": backend, "OPTIONS": {"location": str(location)}},
    }


def save(job, name="a.txt", content=b"hello"):
    """Store a file of ``job``, in whatever state that is."""

    def attach(asset):
        asset.save(force_insert=True)
        return asset

    return store(job, name, content, "text", None, attach)


def exists(asset):
    return storages[asset.storage].exists(asset.storage_path)


def files_in(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


WAYS = {
    "asset": lambda asset: asset.delete(),
    "assets": lambda asset: Asset.objects.filter(pk=asset.pk).delete(),
    "of the job": lambda asset: asset.job.assets.all().delete(),
    "job": lambda asset: asset.job.delete(),
    "jobs": lambda asset: Job.objects.filter(pk=asset.job_id).delete(),
    "user": lambda asset: asset.user.delete(),
    "users": lambda asset: get_user_model().objects.filter(pk=asset.user_id).delete(),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_file_goes_with_its_asset_and_its_empty_folders_too(user, other_user, folder, way):
    asset = save(make_job(user, "completed"))
    kept = save(make_job(other_user, "completed"))

    WAYS[way](asset)

    assert list(Asset.objects.all()) == [kept]
    assert [exists(asset), exists(kept)] == [False, True]
    assert files_in(folder) == [folder / kept.storage_path]
    assert list((folder / str(user.pk)).iterdir()) == []


@pytest.mark.parametrize("way", WAYS)
def test_a_file_stays_if_the_deletion_is_rolled_back(user, way):
    asset = save(make_job(user, "completed"))

    with transaction.atomic():
        WAYS[way](Asset.objects.get())
        assert exists(asset)
        transaction.set_rollback(True)

    assert Asset.objects.get() == asset
    assert exists(asset)


def test_what_a_savepoint_takes_back_stays_and_the_rest_goes(user):
    gone, kept, late = (save(make_job(user, "completed")) for _ in range(3))

    with transaction.atomic():
        gone.job.delete()
        with transaction.atomic():
            kept.job.delete()
            transaction.set_rollback(True)
        late.job.delete()

    assert list(Asset.objects.all()) == [kept]
    assert [exists(asset) for asset in (gone, kept, late)] == [False, True, False]


def test_many_files_take_few_queries(user, folder):
    jobs = [make_job(user, "completed") for _ in range(10)]
    for job in jobs:
        for name in "abc":
            save(job, name)

    with Statements() as statements:
        Job.objects.all().delete()

    assert files_in(folder) == []
    # jobs, their assets and retries; three deletions; which files are needed
    assert len(statements.sent) <= 9, statements.sent


@pytest.mark.parametrize("same_job", [True, False])
def test_a_file_that_another_asset_refers_to_stays(user, same_job):
    asset = save(make_job(user, "completed"))
    job = asset.job if same_job else make_job(user, "completed")
    copy = Asset.objects.create(
        job=job, user=user, name="b", storage=asset.storage, storage_path=asset.storage_path
    )

    asset.delete()
    assert exists(copy)

    copy.delete()
    assert not exists(copy)


def test_the_same_path_in_another_storage_is_another_file(user, settings):
    asset = save(make_job(user, "completed"))
    Asset.objects.create(
        job=make_job(user), user=user, name="b", storage="other", storage_path=asset.storage_path
    )

    asset.delete()

    assert not exists(asset)


@pytest.mark.parametrize("other", ["{}", "{}y", "x{}"])
def test_long_paths_are_told_apart(user, other):
    start = "x" * PATH_START
    job = make_job(user, "completed")
    paths = [
        storages["django_jobs"].save(f"{'x' * 100}/{start}{n}", ContentFile(b"a")) for n in range(2)
    ]
    first, second = (
        Asset.objects.create(
            job=job, user=user, name=path, storage="django_jobs", storage_path=path
        )
        for path in paths
    )

    first.delete()

    assert [exists(first), exists(second)] == [False, True]


@pytest.mark.parametrize("fields", [{}, {"storage_path": "a"}, {"storage": "django_jobs"}])
def test_an_asset_without_a_file_of_ours_is_just_deleted(user, fields, caplog):
    Asset.objects.create(job=make_job(user), user=user, name="a", **fields).delete()

    assert not Asset.objects.exists()
    assert caplog.messages == []


def test_a_file_that_is_gone_is_no_error(user, folder, caplog):
    asset = save(make_job(user, "completed"))
    (folder / asset.storage_path).unlink()

    asset.delete()

    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


@pytest.mark.parametrize("way", WAYS)
def test_a_storage_that_cannot_remove_is_logged_and_hinders_nothing(
    user, settings, folder, caplog, way
):
    asset = save(make_job(user, "completed"))
    use_storage(settings, f"{__name__}.BrokenStorage", folder)

    WAYS[way](asset)

    assert not Asset.objects.exists()
    assert exists(asset)
    assert f"job {asset.job_id}: {asset.storage_path} in the storage 'django_jobs'" in caplog.text
    assert "the bucket is gone" in caplog.text


def test_an_unknown_storage_is_logged_and_hinders_nothing(user, caplog):
    Asset.objects.create(
        job=make_job(user), user=user, name="a", storage="gone", storage_path="a"
    ).delete()

    assert "could not be removed" in caplog.text


def test_files_stay_if_it_cannot_be_known_whether_they_are_needed(user, caplog):
    asset = save(make_job(user, "completed"))
    Asset.objects.all()._raw_delete("default")  # behind the back of all receivers

    with transaction.atomic():
        transaction.set_rollback(True)  # from here on Django sends no query
        remove_unneeded([StoredFile.of(asset)], "default")

    assert exists(asset)
    assert "are they needed?" in caplog.text
    remove_unneeded([StoredFile.of(asset)], "default")
    assert not exists(asset)


@pytest.mark.parametrize("path", ["../secret", "/secret", "a/../../secret", "link", "linked/x"])
def test_nothing_outside_the_storage_is_removed(user, folder, path, caplog):
    folder.mkdir()
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "x").write_text("x")
    (folder.parent / "secret").write_text("secret")
    (folder / "link").symlink_to(folder.parent / "secret")
    (folder / "linked").symlink_to(outside)

    Asset.objects.create(
        job=make_job(user), user=user, name="a", storage="django_jobs", storage_path=path
    ).delete()

    assert (folder.parent / "secret").exists()
    assert (outside / "x").exists()
    assert "could not be removed" in caplog.text


def test_a_storage_without_a_location_loses_nothing(user, settings, tmp_path, monkeypatch):
    (tmp_path / "manage.py").write_text("source")
    monkeypatch.chdir(tmp_path)
    use_storage(settings, "django.core.files.storage.FileSystemStorage", "")

    Asset.objects.create(
        job=make_job(user), user=user, name="a", storage="django_jobs", storage_path="manage.py"
    ).delete()

    assert (tmp_path / "manage.py").exists()


def test_a_database_that_fails_after_the_commit_hinders_nothing(user, monkeypatch, caplog):
    asset = save(make_job(user, "completed"))

    def refuse(execute, sql, *args):
        if "storage_path_start" in sql.partition("WHERE")[2]:
            raise OperationalError("gone away")
        return execute(sql, *args)

    with connection.execute_wrapper(refuse):
        asset.job.delete()

    assert not Asset.objects.exists()
    assert exists(asset)


# -- places ----------------------------------------------------------------------------------------


def test_the_root_of_a_storage(folder, tmp_path):
    assert root_of(FileSystemStorage(location=folder)) == folder.resolve()
    assert root_of(InMemoryStorage(location="x")) is None
    with pytest.raises(ImproperlyConfigured):
        root_of(FileSystemStorage())


def test_a_root_may_be_a_link(folder, tmp_path):
    folder.mkdir()
    (folder / "a").write_text("a")
    (tmp_path / "link").symlink_to(folder)

    assert checked_place(FileSystemStorage(location=tmp_path / "link"), "a") == folder / "a"


@pytest.mark.parametrize("path", ["", ".", "a/.."])
def test_the_root_itself_is_no_place_for_a_file(folder, path):
    with pytest.raises(SuspiciousFileOperation):
        checked_place(FileSystemStorage(location=folder), path)


# -- what does not come to be ----------------------------------------------------------------------


def work_and_roll_back(job):
    with transaction.atomic():
        job.save_asset("rolled back.txt", b"x", "text")
        transaction.set_rollback(True)
    job.save_asset("kept.txt", b"x", "text")
    with transaction.atomic():
        job.save_asset("committed.txt", b"x", "text")


def fail_in_a_transaction(job):
    with transaction.atomic():
        job.save_asset("rolled back.txt", b"x", "text")
        raise ValueError


@pytest.mark.parametrize(
    ("work", "kept"),
    [(work_and_roll_back, ["committed.txt", "kept.txt"]), (fail_in_a_transaction, [])],
)
def test_a_handler_s_rollback_takes_the_file_too(user, handler, folder, work, kept):
    job = create_job(user, handler(work), {})

    assert sorted(job.assets.values_list("name", flat=True)) == kept
    assert sorted(path.name.split("-", 1)[1] for path in files_in(folder)) == kept
    assert files._uncertain.get() is None


def test_a_commit_whose_reply_is_lost_keeps_the_file(user):
    def attach(asset):
        asset.save(force_insert=True)
        raise OperationalError("server closed the connection")

    job = make_job(user, "processing")
    with pytest.raises(OperationalError):
        store(job, "a.txt", b"hello", "text", None, attach)

    assert exists(Asset.objects.get())


def test_what_was_written_when_the_storage_gave_up_is_removed(user, folder, monkeypatch):
    def interrupted(self, name, content):
        path = folder / name
        path.parent.mkdir(parents=True)
        path.write_bytes(b"hel")
        raise KeyboardInterrupt

    monkeypatch.setattr(FileSystemStorage, "_save", interrupted)

    with pytest.raises(KeyboardInterrupt):
        save(make_job(user, "processing"))

    assert files_in(folder) == []


class OverwritingStorage(FileSystemStorage):
    """Like object stores, where a file of the same name is simply replaced."""

    def get_available_name(self, name, max_length=None):
        return name


def test_a_late_worker_touches_nothing_that_its_attempt_had_stored(user, settings, folder):
    use_storage(settings, f"{__name__}.OverwritingStorage", folder)
    job = make_job(user, "processing", worker="host/machine/1/1/abcd")
    asset = save(job, content=b"in time")

    def refuse(asset):
        raise LeaseLost

    with pytest.raises(LeaseLost):
        store(job, "a.txt", b"late", "text", None, refuse)

    assert (folder / asset.storage_path).read_bytes() == b"in time"
    assert len(files_in(folder)) == 1


def test_a_storage_without_a_location_takes_nothing(user, settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    use_storage(settings, "django.core.files.storage.FileSystemStorage", "")

    with pytest.raises(ImproperlyConfigured, match="no location"):
        save(make_job(user, "processing"))

    assert list(tmp_path.iterdir()) == []
