import subprocess
import sys
from pathlib import Path

import pytest

from django_jobs.checks.storages import check_storage
from tests.checks.conftest import ids

ON_DISK = "django.core.files.storage.FileSystemStorage"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def media(settings, tmp_path):
    """A MEDIA_ROOT that is served."""
    settings.MEDIA_ROOT = tmp_path / "media"
    settings.MEDIA_URL = "/media/"
    return tmp_path / "media"


@pytest.fixture
def storage(settings):
    """Make a storage by alias."""

    def make(backend=ON_DISK, alias="django_jobs", **options):
        made = {"BACKEND": backend, "OPTIONS": options}
        settings.STORAGES = {**settings.STORAGES, alias: made}

    return make


def test_a_storage_beside_media_is_left_in_peace(storage, media):
    storage(location=str(media.parent / "job_files"))
    assert check_storage() == []


def test_a_storage_of_another_kind_is_left_in_peace(storage, media):
    storage("django.core.files.storage.InMemoryStorage")
    assert check_storage() == []


@pytest.mark.parametrize("folder", ["", "jobs", "a/b", "../media/x"])
def test_files_under_media_are_public(storage, media, folder):
    storage(location=str(media / folder))
    [message] = check_storage()
    assert ids([message]) == ["W011"]
    assert "MEDIA_URL" in message.msg
    assert "django_jobs" in message.hint


def test_a_link_into_media_is_no_way_round(storage, media):
    media.mkdir()
    (media.parent / "job_files").symlink_to(media)
    storage(location=str(media.parent / "job_files"))
    assert ids(check_storage()) == ["W011"]


def test_without_a_storage_of_their_own_files_may_be_public(storage, media):
    storage(alias="default")
    [message] = check_storage()
    assert ids([message]) == ["W011"]
    assert "'default'" in message.msg


@pytest.mark.parametrize("address", ["", "/"])
def test_media_that_are_not_served_are_private(storage, media, settings, address):
    settings.MEDIA_URL = address
    storage(location=str(media))
    assert check_storage() == []


def test_files_under_static_are_public(storage, settings, tmp_path):
    settings.STATIC_ROOT = str(tmp_path)
    storage(location=str(tmp_path / "jobs"))
    assert ids(check_storage()) == ["W011"]


def test_a_remote_storage_that_signs_nothing_is_public(storage):
    storage(f"{__name__.rpartition('.')[0]}.storing.Unsigned")
    assert ids(check_storage()) == ["W011"]


@pytest.mark.parametrize("alias", ["default", "django_jobs"])
def test_a_storage_without_a_place(storage, settings, alias):
    settings.MEDIA_ROOT = ""
    storage(alias=alias)
    [message] = check_storage()
    assert ids([message]) == ["E011"]
    assert "MEDIA_ROOT" in message.hint
    assert message.is_serious()


@pytest.mark.parametrize("backend", ["no.such.Storage", "django.core.files.storage.NoSuch"])
def test_a_storage_that_is_none(storage, backend):
    storage(backend)
    assert ids(check_storage()) == ["E011"]


def test_an_alias_that_is_misspelt(jobs):
    jobs(STORAGE="job_files")
    [message] = check_storage()
    assert ids([message]) == ["W010"]
    assert "'job_files'" in message.msg
    assert "'default'" in message.hint


@pytest.mark.parametrize("given", [None, {"STORAGE": 1}, []])
def test_what_others_tell_is_not_told_twice(settings, given):
    settings.DJANGO_JOBS = given
    assert check_storage() == []


def test_it_runs_with_the_others():
    done = subprocess.run(
        [sys.executable, "-m", "django", "check", "--settings", "tests.checks.public_settings"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert "django_jobs.W011" in done.stderr
