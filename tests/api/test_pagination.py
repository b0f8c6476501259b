import subprocess
import sys
from base64 import b64encode

import pytest

from django_jobs.models import Job
from django_jobs.testing import make_job
from tests.api.callers import url

pytestmark = pytest.mark.django_db


def encoded(text):
    return b64encode(text.encode()).decode()


def test_pages_hold_each_job_once_forward_and_backward(me, user):
    jobs = Job.objects.bulk_create([Job(user=user, job_type="a") for _ in range(130)])
    expected = [str(job.pk) for job in reversed(jobs)]

    forward, last = [], None
    address = f"{url('job-list')}?page_size=50"
    while address:
        body = me.client.get(address).json()
        forward.append([result["id"] for result in body["results"]])
        if len(forward) == 1:  # what comes meanwhile is not on these pages
            Job.objects.bulk_create([Job(user=user, job_type="b") for _ in range(5)])
        address, last = body["next"], body

    backward = [[result["id"] for result in last["results"]]]
    address = last["previous"]
    while address and len(backward) < 3:
        body = me.client.get(address).json()
        backward.append([result["id"] for result in body["results"]])
        address = body["previous"]

    assert [len(page) for page in forward] == [50, 50, 30]
    assert [key for page in forward for key in page] == expected
    assert backward == forward[::-1]


def test_pages_keep_the_filters(me, user):
    for number in range(6):
        make_job(user, job_type="ab"[number % 2])

    first = me.get("job-list", job_type="a", page_size=2).json()
    second = me.client.get(first["next"]).json()

    assert [len(first["results"]), len(second["results"]), second["next"]] == [2, 1, None]
    assert {job["job_type"] for job in first["results"] + second["results"]} == {"a"}


def test_a_page_has_20_jobs(me, user):
    Job.objects.bulk_create([Job(user=user, job_type="a") for _ in range(101)])

    assert len(me.get("job-list").json()["results"]) == 20


@pytest.mark.parametrize(
    ("size", "shown"),
    [("1", 1), ("100", 100), ("101", 100), (10**30, 100), ("9" * 5000, 20), ("0", 20), ("-1", 20),
     ("x", 20), ("\x00", 20), ("", 20), ("1e3", 20)],
)  # fmt: skip
def test_the_size_of_a_page_is_bounded(me, user, size, shown):
    Job.objects.bulk_create([Job(user=user, job_type="a") for _ in range(101)])

    assert len(me.get("job-list", page_size=size).json()["results"]) == shown


@pytest.mark.parametrize(
    "cursor",
    [
        "nonsense",
        "%%%",
        "====",
        "ü",
        "\x00",
        encoded("p=nonsense"),
        encoded("p="),
        encoded("p=2024-01-01"),
        encoded("p=1"),
        encoded("p=\x00"),
        encoded("o=1"),
        encoded("o=5&p=018f0000-0000-7000-8000-000000000001"),
        encoded("o=-1&p=018f0000-0000-7000-8000-000000000001"),
        encoded("o=x&p=018f0000-0000-7000-8000-000000000001"),
        encoded("r=x&p=018f0000-0000-7000-8000-000000000001"),
        encoded("r=1"),
        encoded("r=" + "9" * 5000),
        b64encode(b"p=\xff").decode(),
        "x" * 10_000,
    ],
    ids=lambda cursor: ascii(cursor[:40]),
)
@pytest.mark.parametrize("name", ["job-list", "asset-list"])
def test_a_forged_cursor_is_not_found(me, name, cursor):
    response = me.get(name, cursor=cursor)

    assert response.status_code == 404
    assert response.json() == {"detail": "Invalid cursor", "code": "not_found"}


def test_a_cursor_leads_nowhere_near_the_jobs_of_others(me, stranger, user):
    for _ in range(5):
        make_job(user)
    first = me.get("job-list", page_size=2).json()

    assert stranger.client.get(first["next"]).json()["results"] == []


def test_an_empty_cursor_is_the_first_page(me, user):
    job = make_job(user)

    (result,) = me.get("job-list", cursor="").json()["results"]
    assert result["id"] == str(job.pk)


def test_the_classes_can_be_named_in_the_settings_of_a_project():
    code = """
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django_jobs"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    REST_FRAMEWORK={"DEFAULT_PAGINATION_CLASS": "django_jobs.api.pagination.NewestFirst"},
)
django.setup()
from rest_framework.generics import GenericAPIView
from django_jobs.api import urls
print(GenericAPIView.pagination_class.__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.stdout == "NewestFirst\n", done.stderr
