import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import storages
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_jobs.models import Asset
from django_jobs.testing import make_job
from tests.admin.conftest import address, messages_of
from tests.conftest import create_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def add(user):
    """Add an asset to a new job, or to ``job``."""

    def add(name="a.txt", content=None, job=None, **fields):
        job = job or make_job(user, "processing")
        if content is not None:
            path = storages["default"].save("file", ContentFile(content))
            fields = {"storage": "default", "storage_path": path, **fields}
        return Asset.objects.create(job=job, user=job.user, asset_type="text", name=name, **fields)

    return add


def test_a_file_is_downloaded_as_an_attachment(as_staff, add):
    asset = add("Zürich.html", b"<script>alert(1)</script>", content_type="text/html")

    response = as_staff("view_asset").get(address("asset_download", asset.pk))

    assert response.status_code == 200
    assert b"".join(response) == b"<script>alert(1)</script>"
    assert response["Content-Disposition"] == "attachment; filename*=utf-8''Z%C3%BCrich.html"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in response["Content-Security-Policy"]
    assert response["Content-Type"] == "text/html"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"url": "https://example.org/"},
        {"storage_path": "/etc/passwd"},
        {"storage": "default", "storage_path": "gone.txt"},
        {"storage": "default", "storage_path": "../../etc/passwd"},
    ],
)
def test_an_asset_without_a_file_ends_in_a_message(as_staff, add, fields):
    asset = add(**fields)
    client = as_staff("view_asset")

    response = client.get(address("asset_download", asset.pk))

    assert response.status_code == 302
    assert response.url == address("asset_change", asset.pk)
    assert messages_of(response) == ["The file of this asset is missing."]
    assert client.get(response.url).status_code == 200


def test_a_storage_that_is_out_of_order_ends_in_a_message(as_staff, add):
    asset = add(storage="unheard-of", storage_path="a.txt")

    response = as_staff("view_asset").get(address("asset_download", asset.pk))

    assert response.status_code == 302
    assert messages_of(response) == [
        "The file of this asset cannot be read just now: the log says why."
    ]


def test_an_asset_that_is_not_there_ends_in_a_message(as_admin):
    response = as_admin.get(address("asset_download", "no-id"))

    assert response.status_code == 302
    assert response.url == "/admin/"


def test_the_page_shows_the_facts(as_admin, add):
    asset = add("a.txt", b"hello", file_size=5, checksum="ab" * 32, content_type="text/plain")

    page = as_admin.get(address("asset_change", asset.pk)).text

    for fact in ("a.txt", "ab" * 32, "text/plain", "5\xa0bytes", asset.storage_path):
        assert fact in page
    assert f'href="{address("asset_download", asset.pk)}"' in page
    assert f'href="{address("job_change", asset.job_id)}"' in page
    assert 'name="_save' not in page
    assert "deletelink" not in page


@pytest.mark.parametrize(
    ("url", "is_link"),
    [
        ("https://example.org/a", True),
        ("http://example.org/a", True),
        ("/files/a.txt", True),
        ("javascript:alert(1)", False),
        ("JaVaScRiPt:alert(1)", False),
        ("data:text/html,<script>alert(1)</script>", False),
        ("//example.org/", False),
        ("ftp://example.org/a", False),
        (" javascript:alert(1)", False),
        ("https://user:secret@example.org/", False),
    ],
)
def test_only_safe_addresses_are_links(as_admin, add, url, is_link):
    asset = add(url=url)

    for place in (address("asset_change", asset.pk), address("asset_changelist")):
        page = as_admin.get(place).text
        assert (f'<a href="{url}"' in page) == is_link
        assert "<script>alert" not in page


# -- the list --------------------------------------------------------------------------------------


def test_search_finds_a_part_of_the_name_or_the_job(as_admin, add):
    first, second = add("report.csv"), add("picture.png")

    def found(term):
        return list(as_admin.get(address("asset_changelist"), {"q": term}).context["cl"].queryset)

    assert found("port") == [first]
    assert found(str(second.job_id)) == [second]
    assert found(second.job_id.hex) == [second]
    assert found("%") == []
    assert found("") == [second, first]


def test_the_list_takes_few_queries_and_never_selects_the_json_of_jobs(as_admin, add):
    def queries():
        with CaptureQueriesContext(connection) as captured:
            assert as_admin.get(address("asset_changelist")).status_code == 200
        return [query["sql"] for query in captured]

    add()
    few = len(queries())
    for _ in range(10):
        add("b.txt", job=make_job(create_user(), "processing"))

    many = queries()
    assert len(many) == few <= 8
    assert not any("parameters" in sql or "result" in sql for sql in many)


def test_assets_are_not_deleted_by_hand(as_admin, add):
    asset = add()

    page = as_admin.get(address("asset_changelist")).text
    assert "delete_selected" not in page
    as_admin.post(
        address("asset_changelist"),
        {"action": "delete_selected", "_selected_action": [asset.pk], "post": "yes"},
    )

    assert Asset.objects.exists()
