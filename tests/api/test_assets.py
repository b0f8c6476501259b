import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_jobs.testing import make_job
from tests.api.callers import attach_file, attach_link, url

pytestmark = pytest.mark.django_db


def address(name, made):
    return f"http://testserver{url(name, made.pk)}"


def test_an_asset_looks_like_this(me, user):
    job = make_job(user)
    asset = attach_file(job, "photo.png", content_type="image/png", checksum="abc")

    body = me.get("asset-detail", asset.pk).json()

    assert body.pop("created_at")
    assert body == {
        "id": str(asset.pk),
        "job": str(job.pk),
        "name": "photo.png",
        "asset_type": "text",
        "content_type": "image/png",
        "file_size": 5,
        "checksum": "abc",
        "url": "",
        "urls": {
            "self": address("asset-detail", asset),
            "download": address("asset-download", asset),
            "job": address("job-detail", job),
        },
    }


def test_assets_are_listed_newest_first(me, user):
    job = make_job(user)
    assets = [attach_file(job, "a"), attach_link(job, "https://x.org/b", name="b")]

    results = me.get("asset-list").json()["results"]

    assert [result["id"] for result in results] == [str(asset.pk) for asset in reversed(assets)]
    assert results[0]["url"] == "https://x.org/b"


@pytest.mark.parametrize("size", [10, 50])
def test_a_list_is_one_query(me, user, size):
    job = make_job(user)
    for number in range(size + 1):
        attach_link(job, "https://x.org", name=str(number))

    with CaptureQueriesContext(connection) as captured:
        response = me.get("asset-list", page_size=size)

    assert len(response.json()["results"]) == size
    assert len(captured) == 1


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
@pytest.mark.parametrize("name", ["asset-detail", "asset-download"])
def test_assets_cannot_be_changed(me, user, method, name):
    asset = attach_file(make_job(user))

    assert getattr(me.client, method)(url(name, asset.pk), {"job": "x"}).status_code == 405
