import hashlib
import io
import os
import re
import tempfile
from pathlib import Path, PurePosixPath

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import FileSystemStorage, InMemoryStorage, storages
from django.db import transaction

from django_jobs.exceptions import LeaseLost
from django_jobs.models import Asset
from django_jobs.services.assets import attach
from django_jobs.services.fencing import Fence
from django_jobs.services.stored_assets import IN_MEMORY, link, storage_alias, store
from django_jobs.testing import make_job
from tests.naming import readable

pytestmark = pytest.mark.django_db

HELLO = b"hello"
SHA256_OF_HELLO = hashlib.sha256(HELLO).hexdigest()


@pytest.fixture(autouse=True)
def folder(settings, tmp_path):
    """Where the storage "django_jobs" keeps its files."""
    settings.STORAGES = {
        **settings.STORAGES,
        "django_jobs": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": tmp_path / "files"},
        },
    }
    return tmp_path / "files"


@pytest.fixture
def attached(held_job):
    """Attach an asset to the job that is held, as its attempt does."""
    return lambda asset: attach(asset, Fence.of(held_job), "default")


@pytest.fixture
def save(held_job, attached):
    def save(name="a.txt", content=HELLO, asset_type="text", content_type=None, attach=attached):
        return store(held_job, name, content, asset_type, content_type, attach)

    return save


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def content_of(asset):
    with storages[asset.storage].open(asset.storage_path) as file:
        return file.read()


def untokened(path):
    """A path without what makes it unique."""
    return re.sub(r"/[0-9a-f]{8}-([^/]+)$", r"/\1", str(path))


def refuse(asset):
    raise LeaseLost


class BrokenStorage(InMemoryStorage):
    def delete(self, name):
        raise OSError("the bucket is gone")


class FullStorage(InMemoryStorage):
    def _save(self, name, content):
        raise OSError("no space left")


class OverwritingStorage(FileSystemStorage):
    def get_available_name(self, name, max_length=None):
        self.delete(name)
        return name


# -- contents ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"hello",
        "hello",
        bytearray(b"hello"),
        memoryview(b"hello"),
        io.BytesIO(b"hello"),
        io.StringIO("hello"),
        ContentFile(b"hello"),
        [b"he", b"", b"llo"],
        ["he", b"llo"],
        (chunk for chunk in (b"hel", b"lo")),
    ],
    ids=lambda content: type(content).__name__,
)
def test_content_of_many_kinds_is_stored(save, content):
    asset = save(content=content if not hasattr(content, "seek") else _rewound(content))

    asset.refresh_from_db()
    assert (asset.file_size, asset.checksum) == (5, SHA256_OF_HELLO)
    assert content_of(asset) == HELLO


def _rewound(file):
    file.seek(0)
    return file


@pytest.mark.parametrize("kind", [Path, os.fspath], ids=["path", "text"])
def test_a_path_is_a_file_and_a_text_is_itself(save, tmp_path, kind):
    path = tmp_path / "hello.txt"
    path.write_bytes(HELLO)

    asset = save(content=kind(path))

    assert content_of(asset) == (HELLO if kind is Path else str(path).encode())


def test_an_open_file_is_read_from_where_it_is_and_stays_open(save, tmp_path):
    path = tmp_path / "hello.txt"
    path.write_bytes(b"0123456789")
    with path.open("rb") as file:
        file.seek(5)
        assert save(content=file).file_size == 5
        assert not file.closed


def test_content_may_be_empty(save):
    asset = save(content=b"")

    assert asset.file_size == 0
    assert asset.checksum == hashlib.sha256(b"").hexdigest()


def test_large_content_is_stored_piece_by_piece(save, folder):
    chunk = os.urandom(IN_MEMORY // 2)

    asset = save(content=(chunk for _ in range(5)))

    (path,) = files(folder)
    assert asset.file_size == path.stat().st_size == 5 * len(chunk)
    assert asset.checksum == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    "content", [None, 1, object(), [1], [None], {"a": 1}.values()], ids=readable
)
def test_other_content_is_refused(save, folder, content, nothing_written):
    with nothing_written(), pytest.raises(TypeError):
        save(content=content)

    assert files(folder) == []


def test_content_that_raises_leaves_nothing_behind(save, folder, nothing_written):
    def broken():
        yield b"hello"
        raise OSError("disk error")

    with nothing_written(), pytest.raises(OSError, match="disk error"):
        save(content=broken())

    assert files(folder) == []


def test_a_file_that_is_missing_is_an_error(save, tmp_path, nothing_written):
    with nothing_written(), pytest.raises(FileNotFoundError):
        save(content=tmp_path / "missing")


# -- what is written ---------------------------------------------------------------------------


def test_an_asset_says_where_its_file_is(save, held_job, user):
    asset = save("report.pdf", asset_type="report")

    asset.refresh_from_db()
    assert (asset.job, asset.user, asset.attempt) == (held_job, user, 1)
    assert (asset.name, asset.asset_type) == ("report.pdf", "report")
    assert (asset.storage, asset.url) == ("django_jobs", "")
    assert untokened(asset.storage_path) == f"{user.pk}/{held_job.pk}/1/report.pdf"


@pytest.mark.parametrize(
    ("name", "given", "stored"),
    [
        ("a.txt", None, "text/plain"),
        ("a.PNG", None, "image/png"),
        ("a", None, "application/octet-stream"),
        ("a.unknownextension", None, "application/octet-stream"),
        ("a.txt", "text/csv", "text/csv"),
        ("a.txt", "", "text/plain"),
    ],
)
def test_the_content_type_is_given_or_guessed(save, name, given, stored):
    assert save(name, content_type=given).content_type == stored


@pytest.mark.parametrize(
    "option",
    [
        {"name": ""},
        {"name": " "},
        {"name": "x" * 256},
        {"name": "x" * 5000},
        {"name": "a/b\x00"},
        {"name": "\ud800"},
        {"name": None},
        {"name": 1},
        {"asset_type": ""},
        {"asset_type": "x" * 51},
        {"asset_type": None},
        {"content_type": "x" * 101},
        {"content_type": "a\x00"},
        {"content_type": 1},
    ],
    ids=lambda option: repr(option)[:30],
)
def test_a_text_that_cannot_be_stored_is_refused_and_named(save, folder, option, nothing_written):
    (name,) = option
    with nothing_written(), pytest.raises(ValueError, match=name) as raised:
        save(**option)

    assert files(folder) == []
    assert len(str(raised.value)) < 200


# -- paths -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "file_name"),
    [
        ("a.txt", "a.txt"),
        ("a b-c_d.txt", "a b-c_d.txt"),
        ("bücher 漢.txt", "bücher 漢.txt"),
        (".profile", "profile"),
        ("..", "asset"),
        (".", "asset"),
        ("...", "asset"),
        ("/", "_"),
        ("../../x", "_._x"),
        ("..\\..\\x", "_._x"),
        ("/etc/passwd", "_etc_passwd"),
        ("C:\\a.txt", "C_a.txt"),
        ("a/b.txt", "a_b.txt"),
        ("a\nb\r.txt", "a_b_.txt"),
        ("a\u202etxt.exe", "a_txt.exe"),
        ("<script>.html", "_script_.html"),
        ("%2e%2e%2fx", "_2e_2e_2fx"),
        ("~", "_"),
        ("a.txt ", "a.txt"),
        ("a:b|c?d*e", "a_b_c_d_e"),
    ],
    ids=ascii,
)
def test_a_name_leads_nowhere_else(save, folder, held_job, user, name, file_name):
    asset = save(name)

    assert asset.name == name
    assert PurePosixPath(untokened(asset.storage_path)).name == file_name
    (path,) = files(folder)
    assert path == folder / asset.storage_path
    assert untokened(path) == str(folder / str(user.pk) / str(held_job.pk) / "1" / file_name)


@pytest.mark.parametrize(
    "name",
    ["x" * 255, "漢" * 255, "😀" * 251 + ".txt", "a." + "x" * 253, "a." + "漢" * 253],
    ids=["letters", "characters", "emoji", "suffix", "suffix of characters"],
)
def test_the_longest_name_fits_every_file_system(save, folder, name):
    for _ in range(2):  # the second file gets some more characters
        assert save(name).name == name

    assert [len(path.name.encode()) < 150 for path in files(folder)] == [True, True]


@pytest.mark.parametrize(
    ("key", "first"),
    [
        ("me@x.org", "me%40x.org"),
        ("a/b", "a%2Fb"),
        ("/etc", "%2Fetc"),
        ("../x", "..%2Fx"),
        ("..", "%2E%2E"),
        (".", "%2E"),
        ("a\\b", "a%5Cb"),
        ("漢", "%E6%BC%A2"),
    ],
)
def test_a_user_key_leads_nowhere_else(held_job, folder, key, first):
    held_job.user_id = key

    asset = store(held_job, "a.txt", HELLO, "text", None, lambda asset: asset)

    assert untokened(asset.storage_path) == f"{first}/{held_job.pk}/1/a.txt"
    (path,) = files(folder)
    assert path == folder / asset.storage_path


def test_each_attempt_has_a_folder_of_its_own(held_job, save):
    held_job.attempt = 3

    asset = save(attach=lambda asset: asset)

    assert f"/{held_job.pk}/3/" in asset.storage_path


# -- storages ----------------------------------------------------------------------------------


def test_the_storage_is_a_setting(settings):
    settings.DJANGO_JOBS = {"STORAGE": "staticfiles"}

    assert storage_alias() == "staticfiles"


def test_without_a_storage_of_that_name_it_is_the_default_one(settings, save):
    settings.STORAGES = {
        name: value for name, value in settings.STORAGES.items() if name != "django_jobs"
    }

    asset = save()

    assert asset.storage == "default"
    assert content_of(asset) == HELLO


# -- replacing ---------------------------------------------------------------------------------


def test_an_asset_of_the_same_name_is_replaced(save):
    first, second = save(content=b"one"), save(content=b"two")

    assert first.pk == second.pk
    asset = Asset.objects.get()
    assert content_of(asset) == b"two"


@pytest.mark.django_db(transaction=True)
def test_the_file_of_an_asset_that_is_replaced_is_removed(save, folder):
    save(content=b"one")
    save(content=b"two")

    (path,) = files(folder)
    assert path.read_bytes() == b"two"


@pytest.mark.django_db(transaction=True)
def test_that_file_stays_if_the_replacement_is_rolled_back(save, folder):
    asset = save(content=b"one")

    with pytest.raises(ZeroDivisionError), transaction.atomic():  # noqa: PT012
        save(content=b"two")
        1 / 0  # noqa: B018

    asset.refresh_from_db()
    assert content_of(asset) == b"one"


@pytest.mark.django_db(transaction=True)
def test_a_storage_that_overwrites_keeps_the_new_file(save, folder, monkeypatch, settings):
    settings.STORAGES = {
        **settings.STORAGES,
        "django_jobs": {
            "BACKEND": f"{__name__}.OverwritingStorage",
            "OPTIONS": {"location": folder},
        },
    }
    save(content=b"one")
    save(content=b"two")

    (path,) = files(folder)
    assert path.read_bytes() == b"two"


@pytest.mark.django_db(transaction=True)
def test_a_storage_that_cannot_remove_does_not_hinder_replacing(save, settings, caplog):
    settings.STORAGES = {
        **settings.STORAGES,
        "django_jobs": {"BACKEND": f"{__name__}.BrokenStorage"},
    }
    save(content=b"one")
    save(content=b"two")

    assert Asset.objects.get().checksum == hashlib.sha256(b"two").hexdigest()
    assert "could not be removed" in caplog.text


# -- when it cannot be attached ----------------------------------------------------------------


def test_a_file_that_cannot_be_attached_is_removed(save, folder, nothing_written):
    with nothing_written(), pytest.raises(LeaseLost):
        save(attach=refuse)

    assert files(folder) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
def test_it_is_removed_whatever_is_raised(save, folder, error):
    def interrupted(asset):
        raise error

    with pytest.raises(error):
        save(attach=interrupted)

    assert files(folder) == []


def test_an_attempt_that_is_over_leaves_no_file(held_job, save, folder, nothing_written):
    over = Fence(held_job.pk, held_job.attempt, "somebody else")

    with nothing_written(), pytest.raises(LeaseLost):
        save(attach=lambda asset: attach(asset, over, "default"))

    assert files(folder) == []


def test_a_storage_that_cannot_remove_does_not_hide_the_error(save, settings, caplog, held_job):
    settings.STORAGES = {
        **settings.STORAGES,
        "django_jobs": {"BACKEND": f"{__name__}.BrokenStorage"},
    }

    with pytest.raises(LeaseLost):
        save(attach=refuse)

    assert "could not be removed" in caplog.text
    assert str(held_job.pk) in caplog.text


def test_a_storage_that_is_full_is_the_handler_s_to_know(save, settings, nothing_written):
    settings.STORAGES = {
        **settings.STORAGES,
        "django_jobs": {"BACKEND": f"{__name__}.FullStorage"},
    }

    with nothing_written(), pytest.raises(OSError, match="no space left"):
        save()


def test_no_temporary_file_is_left(save, monkeypatch, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))

    save(content=b"x" * (2 * IN_MEMORY))

    assert list(scratch.iterdir()) == []


# -- links -------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["http://x.org", "https://x.org/a?b", "HTTPS://x.org"])
def test_a_web_address_is_linked(held_job, attached, url):
    asset = link(held_job, "n", url, "page", attached)

    asset.refresh_from_db()
    assert (asset.name, asset.url, asset.asset_type) == ("n", url, "page")
    assert (asset.storage, asset.storage_path, asset.file_size) == ("", "", 0)


@pytest.mark.parametrize(
    "url",
    ["", "/a", "a", "//x.org", "javascript:alert(1)", "JaVaScRiPt:x", "data:,x", "ftp://x.org",
     "http://user:pw@h", "https://", " https://x.org", None, 1],
    ids=readable,
)  # fmt: skip
def test_anything_else_is_not(held_job, attached, url, nothing_written):
    with nothing_written(), pytest.raises(ValueError, match=r"url|http\(s\)"):
        link(held_job, "n", url, "page", attached)


def test_a_link_replaces_a_file_of_the_same_name(save, held_job, attached):
    save("n")
    link(held_job, "n", "https://x.org", "page", attached)

    asset = Asset.objects.get()
    assert (asset.url, asset.storage, asset.checksum) == ("https://x.org", "", "")


def test_another_job_s_assets_are_left_alone(save, user):
    other = make_job(user, "processing", worker="host/machine/1/1/efgh")
    store(
        other,
        "a.txt",
        b"other",
        "text",
        None,
        lambda asset: attach(asset, Fence.of(other), "default"),
    )
    save("a.txt")

    assert sorted(asset.file_size for asset in Asset.objects.all()) == [5, 5]
    assert Asset.objects.count() == 2
