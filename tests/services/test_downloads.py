import datetime as dt
import os

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import InMemoryStorage, storages
from django.test import RequestFactory
from django.utils import timezone

from django_jobs.models import Asset
from django_jobs.services.downloads import (
    AssetFileMissing,
    AssetStorageDown,
    download_response,
    has_file,
)

pytestmark = pytest.mark.django_db  # the time of a new asset is the database's


class BrokenStorage(InMemoryStorage):
    def _open(self, name, mode="rb"):
        raise ConnectionError("the bucket is gone")


def asset_with(content=b"hello", **fields):
    path = storages["default"].save("file", ContentFile(content))
    return Asset(**{"name": "a.txt", "storage": "default", "storage_path": path, **fields})


def test_the_file_is_an_attachment_that_no_browser_takes_for_a_page():
    response = download_response(asset_with(content_type="text/html; charset=utf-8"))

    assert b"".join(response) == b"hello"
    assert response["Content-Disposition"] == 'attachment; filename="a.txt"'
    assert response["Content-Type"] == "text/html; charset=utf-8"
    assert response["Content-Length"] == "5"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert response["Cache-Control"] == "private, no-cache"


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("a b.txt", 'attachment; filename="a b.txt"'),
        ('say "hi".txt', 'attachment; filename="say \\"hi\\".txt"'),
        ("folder/../../b.txt", 'attachment; filename="b.txt"'),
        ("a\r\nSet-Cookie: b=c", 'attachment; filename="a__Set-Cookie: b=c"'),
        ("gpj.\u202eexe", 'attachment; filename="gpj._exe"'),  # shown as gpj.exe backwards
        ("北.txt", "attachment; filename*=utf-8''%E5%8C%97.txt"),
        ("/", 'attachment; filename="asset"'),
    ],
)
def test_the_name_of_the_download(name, sent):
    assert download_response(asset_with(name=name))["Content-Disposition"] == sent


@pytest.mark.parametrize(
    "content_type", ["", "text", "text/html\r\nSet-Cookie: a=b", "ü/ü", "a/b;"]
)
def test_a_content_type_that_is_none_is_not_sent(content_type):
    response = download_response(asset_with(content_type=content_type))

    assert response["Content-Type"] == "application/octet-stream"


@pytest.mark.parametrize(
    "fields",
    [
        {"storage": ""},
        {"storage_path": ""},
        {"storage_path": "gone.txt"},
        {"storage_path": "../../etc/passwd"},
        {"storage_path": "/etc/passwd"},
    ],
)
def test_a_file_that_is_not_there(fields):
    with pytest.raises(AssetFileMissing):
        download_response(asset_with(**fields))


@pytest.fixture
def storage_of(settings):
    """Make the storage "other" of a backend with options."""

    def make(backend, **options):
        settings.STORAGES = {
            **settings.STORAGES,
            "other": {"BACKEND": backend, "OPTIONS": options},
        }
        return storages["other"]

    return make


ON_DISK = "django.core.files.storage.FileSystemStorage"


@pytest.mark.parametrize("storage", ["other", "unheard-of"])
def test_a_storage_that_is_out_of_order_is_not_a_file_that_is_missing(storage_of, caplog, storage):
    storage_of(f"{__name__}.BrokenStorage")

    with pytest.raises(AssetStorageDown, match="Try again later"):
        download_response(asset_with(storage=storage))

    assert "cannot be opened" in caplog.text
    assert "Traceback" in caplog.text


class BrokenFile(ContentFile):
    def seek(self, *_):
        return 1 / 0


class HalfBrokenStorage(InMemoryStorage):
    def _open(self, name, mode="rb"):
        return BrokenFile(b"hello")


def test_a_storage_that_fails_after_it_opened_the_file_is_out_of_order(storage_of, caplog):
    storage_of(f"{__name__}.HalfBrokenStorage")
    request = RequestFactory().get("/", headers={"range": "bytes=1-2"})

    with pytest.raises(AssetStorageDown):
        download_response(asset_with(storage="other"), request)

    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("path", ["link", "linked/secret", "up/secret", "folder", "pipe"])
def test_no_link_leads_out_of_the_storage(storage_of, tmp_path, path):
    inside = tmp_path / "inside"
    (inside / "folder").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (inside / "link").symlink_to(tmp_path / "secret")
    (inside / "linked").symlink_to(tmp_path)
    (inside / "up").symlink_to("..")
    os.mkfifo(inside / "pipe")
    storage_of(ON_DISK, location=str(inside))

    with pytest.raises(AssetFileMissing):
        download_response(asset_with(storage="other", storage_path=path))


def test_a_link_within_the_storage_is_followed(storage_of, tmp_path):
    (tmp_path / "a").write_text("hello")
    (tmp_path / "link").symlink_to("a")
    storage_of(ON_DISK, location=str(tmp_path))

    response = download_response(asset_with(storage="other", storage_path="link"))

    assert b"".join(response) == b"hello"
    response.close()


def test_a_storage_without_a_location_hands_out_nothing(storage_of, tmp_path, monkeypatch, caplog):
    (tmp_path / "manage.py").write_text("source")
    monkeypatch.chdir(tmp_path)
    storage_of(ON_DISK)

    with pytest.raises(AssetStorageDown):
        download_response(asset_with(storage="other", storage_path="manage.py"))

    assert "has no location" in caplog.text


# -- conditions and ranges -------------------------------------------------------------------------

SHA256 = "ab" * 32
ETAG = f'"{SHA256}"'
MOMENT = dt.datetime(2026, 5, 1, 12, 0, 0, 999999)
MODIFIED = "Fri, 01 May 2026 12:00:00 GMT"


@pytest.fixture
def ask(settings):
    """Ask for a file of ten bytes with headers; return status, content and the answer."""
    moment = MOMENT.replace(tzinfo=dt.UTC) if settings.USE_TZ else _local(MOMENT)

    def ask(method="get", content=b"0123456789", **headers):
        request = getattr(RequestFactory(), method)("/", headers=headers)
        asset = asset_with(content, checksum=SHA256, created_at=moment)
        response = download_response(asset, request)
        body = b"".join(response)
        response.close()
        return response.status_code, body, response

    return ask


def _local(moment):
    return timezone.make_naive(moment.replace(tzinfo=dt.UTC))


def test_the_answer_says_how_to_ask_again(ask):
    status, content, response = ask()

    assert (status, content) == (200, b"0123456789")
    assert response["ETag"] == ETAG
    assert response["Last-Modified"] == MODIFIED
    assert response["Accept-Ranges"] == "bytes"


@pytest.mark.parametrize("checksum", ["", 'a"b', "x" * 64])
def test_without_a_checksum_there_is_no_etag(checksum):
    assert "ETag" not in download_response(asset_with(checksum=checksum))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"if_none_match": ETAG}, 304),
        ({"if_none_match": f'"x", W/{ETAG}'}, 304),
        ({"if_none_match": "*"}, 304),
        ({"if_none_match": '"x"'}, 200),
        ({"if_none_match": '"x"', "if_modified_since": MODIFIED}, 200),
        ({"if_modified_since": MODIFIED}, 304),
        ({"if_modified_since": "Fri, 01 May 2026 11:59:59 GMT"}, 200),
        ({"if_modified_since": "nonsense"}, 200),
        ({"if_match": ETAG}, 200),
        ({"if_match": '"x"'}, 412),
        ({"if_unmodified_since": "Fri, 01 May 2026 11:59:59 GMT"}, 412),
    ],
    ids=str,
)
def test_conditions(ask, headers, status):
    found, content, response = ask(**headers)

    assert found == status
    assert content == (b"0123456789" if status == 200 else b"")
    assert response["Cache-Control"] == "private, no-cache"
    assert response["ETag"] == ETAG


@pytest.mark.parametrize(
    ("wanted", "content"),
    [
        ("bytes=0-0", b"0"),
        ("bytes=2-4", b"234"),
        ("bytes=5-", b"56789"),
        ("bytes=-3", b"789"),
        ("bytes=-99", b"0123456789"),
        ("bytes=8-99", b"89"),
        (" bytes=0-9 ", b"0123456789"),
        ("bytes=9-" + "9" * 18, b"9"),
    ],
)
def test_a_part_of_the_file(ask, wanted, content):
    status, found, response = ask(range=wanted)
    begin = b"0123456789".index(content)

    assert (status, found) == (206, content)
    assert response["Content-Range"] == f"bytes {begin}-{begin + len(content) - 1}/10"
    assert response["Content-Length"] == str(len(content))
    assert response["Content-Disposition"].startswith("attachment")
    assert response["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("wanted", ["bytes=10-", "bytes=99-100", "bytes=-0"])
def test_a_part_behind_the_end(ask, wanted):
    status, content, response = ask(range=wanted)

    assert (status, content, response["Content-Range"]) == (416, b"", "bytes */10")


def test_an_empty_file_has_no_parts(ask):
    assert ask(content=b"", range="bytes=0-")[0] == 416
    assert ask(content=b"")[:2] == (200, b"")


@pytest.mark.parametrize(
    "wanted",
    ["", "bytes=", "bytes=-", "bytes=4-2", "bytes=a-b", "bytes=0-1,3-4", "lines=1-2", "bytes=٣-",
     "bytes=" + "9" * 400 + "-"],
)  # fmt: skip
def test_a_range_that_need_not_be_understood_gets_the_whole(ask, wanted):
    assert ask(range=wanted)[:2] == (200, b"0123456789")


@pytest.mark.parametrize(
    ("condition", "status"), [(ETAG, 206), (MODIFIED, 206), ('"x"', 200), ("nonsense", 200)]
)
def test_a_part_of_another_version_is_not_wanted(ask, condition, status):
    assert ask(range="bytes=1-2", if_range=condition)[0] == status


def test_only_get_has_parts(ask):
    assert ask("head", range="bytes=1-2")[0] == 200


def test_a_part_of_a_file_on_disk(storage_of, tmp_path):
    storage_of(ON_DISK, location=str(tmp_path))
    (tmp_path / "a").write_bytes(b"x" * 100_000 + b"y" * 100_000)
    request = RequestFactory().get("/", headers={"range": "bytes=99999-100000"})

    response = download_response(asset_with(storage="other", storage_path="a"), request)

    assert b"".join(response) == b"xy"
    response.close()


# -- storages that hand out files themselves -------------------------------------------------------


class SigningStorage(InMemoryStorage):
    """Like an object store: files have addresses that expire."""

    def __init__(self, address="https://bucket.example.org/{}?signature=x", **options):
        super().__init__()
        self.address = address
        self.__dict__.update(options)

    def url(self, name):
        if not self.address:
            raise ConnectionError("no credentials")
        return self.address.format(name)


@pytest.fixture
def redirects(settings):
    settings.DJANGO_JOBS = {**settings.DJANGO_JOBS, "REDIRECT_DOWNLOADS": True}


def kept_in(storage, name="a.bin", **fields):
    path = storage.save(name, ContentFile(b"hello"))
    return asset_with(storage="other", storage_path=path, **fields)


def test_a_remote_storage_hands_out_its_files_if_that_is_wanted(storage_of, redirects):
    response = download_response(kept_in(storage_of(f"{__name__}.SigningStorage")))

    assert response.status_code == 302
    assert response["Location"] == "https://bucket.example.org/a.bin?signature=x"
    assert response["Cache-Control"] == "private, no-store"


def test_by_default_it_does_not(storage_of):
    response = download_response(kept_in(storage_of(f"{__name__}.SigningStorage")))

    assert (response.status_code, b"".join(response)) == (200, b"hello")


@pytest.mark.parametrize(
    "options",
    [
        {"querystring_auth": False},  # the address would be valid for everybody, for ever
        {"address": ""},
        {"address": "/media/{}"},
        {"address": "javascript:alert('{}')"},
        {"address": "//example.org/{}"},
        {"address": "https://me:secret@example.org/{}"},
    ],
    ids=str,
)
def test_an_address_that_is_not_private_or_not_safe_is_not_handed_out(
    storage_of, redirects, options
):
    response = download_response(kept_in(storage_of(f"{__name__}.SigningStorage", **options)))

    assert (response.status_code, b"".join(response)) == (200, b"hello")


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("a.html", "text/plain"),
        ("a.svg", ""),
        ("a.bin", "text/html"),
        ("a.bin", "IMAGE/SVG+XML"),
        ("a.xhtml", ""),
        ("a.js", ""),
        ("a.xml", ""),
    ],
)
def test_what_a_browser_would_run_there_is_never_redirected_to(
    storage_of, redirects, name, content_type
):
    asset = kept_in(storage_of(f"{__name__}.SigningStorage"), name, content_type=content_type)

    response = download_response(asset)

    assert response.status_code == 200
    assert response["Content-Disposition"].startswith("attachment")


def test_a_storage_on_disk_is_never_redirected_to(storage_of, redirects, tmp_path):
    storage = storage_of(ON_DISK, location=str(tmp_path), base_url="https://example.org/media/")

    response = download_response(kept_in(storage))

    assert response.status_code == 200
    response.close()


@pytest.mark.parametrize(
    ("storage", "path", "answer"),
    [("default", "a.txt", True), ("", "/srv/a.txt", False), ("default", "", False)],
)
def test_only_what_lies_in_a_storage_is_a_file_of_ours(storage, path, answer):
    assert has_file(Asset(storage=storage, storage_path=path)) is answer
