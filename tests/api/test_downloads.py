import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import storages

from django_jobs.testing import make_job
from tests.api.callers import attach_file, attach_link

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(user):
    return make_job(user)


def content_of(response):
    return b"".join(response.streaming_content)


def test_a_file_is_an_attachment(me, job):
    asset = attach_file(job, "photo.png", b"\x89PNG" * 100_000, content_type="image/png")

    response = me.get("asset-download", asset.pk)

    assert response.status_code == 200
    assert content_of(response) == b"\x89PNG" * 100_000
    assert response.headers["Content-Type"] == "image/png"
    assert response.headers["Content-Length"] == "400000"
    assert response.headers["Content-Disposition"] == 'attachment; filename="photo.png"'
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Cache-Control"] == "private, no-cache"


@pytest.mark.parametrize(
    ("name", "content_type"),
    [("a.html", "text/html"), ("a.svg", "image/svg+xml"), ("a.xml", "text/xml"), ("a.js", "")],
)
def test_nothing_is_ever_shown_in_the_name_of_the_site(me, job, name, content_type):
    asset = attach_file(job, name, b"<script>alert(1)</script>", content_type=content_type)

    response = me.get("asset-download", asset.pk, inline="1", headers={"Accept": "text/html"})

    assert response.headers["Content-Disposition"].startswith("attachment")
    assert response.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("name", "disposition"),
    [
        ('a"b.txt', 'attachment; filename="a\\"b.txt"'),
        ("a\r\nSet-Cookie: x=y", 'attachment; filename="a__Set-Cookie: x=y"'),
        ("../../etc/passwd", 'attachment; filename="passwd"'),
        ("Zürich 北京.txt", "attachment; filename*=utf-8''Z%C3%BCrich%20%E5%8C%97%E4%BA%AC.txt"),
        ("a\u202egpj.exe", 'attachment; filename="a_gpj.exe"'),
        ("a/", 'attachment; filename="a"'),
        ("x" * 255, f'attachment; filename="{"x" * 255}"'),
    ],
    ids=ascii,
)
def test_a_name_cannot_break_out_of_its_header(me, job, name, disposition):
    response = me.get("asset-download", attach_file(job, name).pk)

    assert response.status_code == 200
    assert response.headers["Content-Disposition"] == disposition
    assert "Set-Cookie" not in response.headers


@pytest.mark.parametrize("accept", ["image/png", "text/csv", "nonsense", "", "text/html"])
def test_whatever_is_accepted_the_file_is_sent(me, job, accept):
    asset = attach_file(job)

    response = me.get("asset-download", asset.pk, headers={"Accept": accept})

    assert (response.status_code, content_of(response)) == (200, b"hello")


def test_an_empty_file_is_sent(me, job):
    response = me.get("asset-download", attach_file(job, content=b"").pk)

    assert (content_of(response), response.headers["Content-Length"]) == (b"", "0")


def test_a_missing_file_is_not_found(me, job):
    asset = attach_file(job)
    storages["default"].delete(asset.storage_path)

    response = me.get("asset-download", asset.pk)

    assert response.status_code == 404
    assert response.json() == {
        "detail": f"The file of the asset {asset.pk} is missing.",
        "code": "asset_file_missing",
    }


@pytest.fixture
def on_disk(settings, tmp_path):
    """Files below ``inside``; beside it lies a secret."""
    (tmp_path / "inside" / "folder").mkdir(parents=True)
    (tmp_path / "inside" / "plain").write_text("plain")
    (tmp_path / "secret").write_text("secret")
    settings.STORAGES = {
        **settings.STORAGES,
        "disk": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": str(tmp_path / "inside")},
        },
    }
    return storages["disk"]


def test_a_file_on_disk_is_sent(me, job, on_disk):
    path = on_disk.save("a/b.txt", ContentFile(b"on disk"))
    asset = attach_file(job, storage="disk", storage_path=path)

    response = me.get("asset-download", asset.pk)

    assert content_of(response) == b"on disk"
    assert response.headers["Content-Length"] == "7"
    response.close()


@pytest.mark.parametrize(
    "path", ["../secret", "/etc/passwd", "folder/../../secret", "folder", "plain/x", "none"]
)
def test_a_path_that_leads_to_no_file_of_the_storage_is_not_found(me, job, on_disk, path):
    asset = attach_file(job, storage="disk", storage_path=path)

    response = me.get("asset-download", asset.pk)

    assert response.status_code == 404
    assert path not in response.content.decode()


def test_a_storage_that_is_out_of_order_is_another_answer(me, job, caplog):
    asset = attach_file(job, storage="gone")

    response = me.get("asset-download", asset.pk)

    assert response.status_code == 503
    assert response.json() == {
        "detail": f"The file of the asset {asset.pk} cannot be read just now. Try again later.",
        "code": "asset_storage_down",
    }
    assert f"job {job.pk}: {asset.storage_path} cannot be opened" in caplog.text


def test_a_file_that_one_has_is_not_sent_again(me, job):
    asset = attach_file(job, checksum="ab" * 32)
    etag = me.get("asset-download", asset.pk).headers["ETag"]

    response = me.get("asset-download", asset.pk, headers={"If-None-Match": etag})

    assert (response.status_code, response.content) == (304, b"")


def test_a_download_can_be_taken_up_again(me, job):
    asset = attach_file(job)

    response = me.get("asset-download", asset.pk, headers={"Range": "bytes=3-"})

    assert (response.status_code, content_of(response)) == (206, b"lo")
    assert response.headers["Content-Range"] == "bytes 3-4/5"


@pytest.mark.parametrize("address", ["https://x.org/a?b=c", "http://x.org", "/media/a.png"])
def test_a_link_is_followed(me, job, address):
    response = me.get("asset-download", attach_link(job, address).pk)

    assert (response.status_code, response.headers["Location"]) == (302, address)


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "ftp://x.org",
        "//x.org",
        "/\\x.org",
        "https://me:secret@x.org",
        "https://x.org\r\nSet-Cookie: x=y",
        " https://x.org",
        "x",
    ],
    ids=ascii,
)
def test_a_link_that_is_not_safe_is_not_followed(me, job, address):
    response = me.get("asset-download", attach_link(job, address).pk)

    assert response.status_code == 404
    assert "address of this asset" in response.json()["detail"]


@pytest.mark.parametrize("fields", [{}, {"storage_path": "a/b"}, {"storage": "default"}], ids=str)
def test_an_asset_without_file_and_link_is_not_found(me, job, fields):
    response = me.get("asset-download", attach_link(job, "", **fields).pk)

    assert response.status_code == 404
    assert response.json()["code"] == "asset_file_missing"
