"""The API in a browser, logged in by session."""

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from django_jobs.handlers import AUTHENTICATED, register_job_type, registry
from django_jobs.models import Job, JobStatus
from django_jobs.testing import make_job
from tests.api.callers import attach_file, create_staff, url

pytestmark = pytest.mark.django_db


def browser_of(user):
    client = Client(headers={"Accept": "text/html"})
    client.force_login(user)
    return client


@pytest.fixture
def browser(user):
    return browser_of(user)


@pytest.fixture
def job(user):
    registry._types = {}
    name = register_job_type("export", permission=AUTHENTICATED).name
    job = make_job(user, JobStatus.FAILED, job_type=name, parameters={"a": "<script>"})
    attach_file(job, "<b>name</b>")
    return job


def key_for(name, job):
    if name.endswith("-list"):
        return None
    if name.startswith("asset"):
        return job.assets.get().pk
    return job.job_type if name.startswith("job-type") else job.pk


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("job-list", 200),
        ("job-detail", 200),
        ("job-transitions", 200),
        ("job-assets", 200),
        ("asset-list", 200),
        ("asset-detail", 200),
        ("job-type-list", 200),
        ("job-type-detail", 200),
        ("job-cancel", 405),
        ("job-retry", 405),
    ],
)
def test_there_is_a_page(browser, job, name, status):
    response = browser.get(url(name, key_for(name, job)))

    assert response.status_code == status
    assert response.headers["Content-Type"].startswith("text/html")
    assert b"<script>alert" not in response.content and b"<b>name</b>" not in response.content


@pytest.mark.parametrize("name", ["job-list", "asset-list", "job-detail"])
def test_no_page_shows_other_users(job, other_user, name):
    login = str(getattr(other_user, get_user_model().USERNAME_FIELD))
    staff = browser_of(create_staff("view_job", "change_job"))

    page = staff.get(url(name, key_for(name, job)), {"user": job.user_id})

    assert page.status_code == 200
    assert login not in page.content.decode()


def test_the_form_of_the_list_starts_a_job(browser, user, job):
    page = browser.get(url("job-list")).content.decode()
    for field in ("job_type", "parameters", "queue", "run_at", "priority"):
        assert f'name="{field}"' in page

    response = browser.post(
        url("job-list"),
        {"job_type": "export", "parameters": "", "queue": "", "run_at": "", "priority": "0"},
    )

    assert response.status_code == 202
    assert response.headers["Content-Type"].startswith("text/html")
    assert Job.objects.for_user(user).count() == 2


@pytest.mark.parametrize("parameters", ["{", "[1]", ""])
@pytest.mark.parametrize("job_type", ["none", "", "export"])
@pytest.mark.parametrize("priority", ["0", "7", "x"])
def test_what_is_wrong_with_the_form_is_said_on_a_page(
    browser, job, job_type, parameters, priority
):
    body = {"job_type": job_type, "parameters": parameters, "priority": priority}

    response = browser.post(url("job-list"), body)

    is_right = (job_type, parameters, priority) == ("export", "", "0")
    assert response.status_code == (202 if is_right else 400)


@pytest.mark.parametrize(("name", "status"), [("job-cancel", 409), ("job-retry", 202)])
def test_actions_are_taken_from_a_page(browser, job, name, status):
    assert browser.post(url(name, job.pk)).status_code == status


@pytest.mark.parametrize(
    "query", [{"status": "paused"}, {"cursor": "forged"}, {"job_type": "<script>alert(1)"}]
)
def test_a_bad_query_has_a_page(browser, job, query):
    response = browser.get(url("job-list"), query)

    assert response.status_code in (200, 400, 404)
    assert b"<script>alert" not in response.content


def test_without_a_token_against_forgery_nothing_is_done(user, job):
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(user)

    assert browser.post(url("job-retry", job.pk)).status_code == 403
    assert browser.post(url("job-list"), {"job_type": "export"}).status_code == 403
    assert Job.objects.count() == 1
