import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import InMemoryStorage, storages

from django_jobs.models import Asset
from django_jobs.services.downloads import AssetFileMissing, download_response, has_file

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
    assert response["Cache-Control"] == "private, no-store"


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
        {"storage": "unheard-of"},
    ],
)
def test_a_file_that_is_not_there(fields):
    with pytest.raises(AssetFileMissing):
        download_response(asset_with(**fields))


def test_a_storage_that_is_out_of_order(settings):
    settings.STORAGES = {
        **settings.STORAGES,
        "broken": {"BACKEND": "tests.services.test_downloads.BrokenStorage"},
    }

    with pytest.raises(AssetFileMissing):
        download_response(asset_with(storage="broken"))


@pytest.mark.parametrize(
    ("storage", "path", "answer"),
    [("default", "a.txt", True), ("", "/srv/a.txt", False), ("default", "", False)],
)
def test_only_what_lies_in_a_storage_is_a_file_of_ours(storage, path, answer):
    assert has_file(Asset(storage=storage, storage_path=path)) is answer
