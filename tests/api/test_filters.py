import uuid

import pytest

from django_jobs.models import JobStatus
from django_jobs.testing import make_job
from tests.api.callers import attach_file

pytestmark = pytest.mark.django_db


@pytest.fixture
def shown(me):
    """Ask for a list; return the ids in it."""

    def ask(name="job-list", **query):
        response = me.get(name, **query)
        assert response.status_code == 200, response.content
        return {result["id"] for result in response.json()["results"]}

    return ask


def ids(*made):
    return {str(one.pk) for one in made}


def test_jobs_are_filtered_by_type_status_and_failure_code(shown, user):
    queued = make_job(user, job_type="a")
    done = make_job(user, JobStatus.COMPLETED, job_type="a")
    failed = make_job(user, JobStatus.FAILED, job_type="b", failure_code="timed_out")
    lost = make_job(user, JobStatus.FAILED, job_type="b", failure_code="worker_lost")

    assert shown(job_type="a") == ids(queued, done)
    assert shown(status="completed") == ids(done)
    assert shown(status=["completed", "queued"]) == ids(queued, done)
    assert shown(failure_code="timed_out") == ids(failed)
    assert shown(failure_code=["timed_out", "worker_lost"], job_type="b") == ids(failed, lost)
    assert shown(job_type="none") == set()
    assert shown(job_type="", unknown="x") == ids(queued, done, failed, lost)


def test_assets_are_filtered_by_job_and_type(shown, user):
    first, second = make_job(user), make_job(user)
    one, two = attach_file(first, asset_type="image"), attach_file(second)

    assert shown("asset-list", job=first.pk) == ids(one)
    assert shown("asset-list", asset_type="text") == ids(two)
    assert shown("asset-list", job=uuid.uuid4()) == set()


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("job-list", {"status": "paused"}),
        ("job-list", {"status": "QUEUED"}),
        ("job-list", {"status": ""}),
        ("job-list", {"status": "\x00"}),
        ("job-list", {"status": ["queued", "paused"]}),
        ("job-list", {"failure_code": "nonsense"}),
        ("job-list", {"failure_code": "\x00"}),
        ("job-list", {"job_type": "\x00"}),
        ("asset-list", {"job": "nonsense"}),
        ("asset-list", {"job": "\x00"}),
        ("asset-list", {"job": "9" * 5000}),
        ("asset-list", {"asset_type": "\x00"}),
    ],
    ids=ascii,
)
def test_an_unknown_value_is_a_bad_request(me, name, query):
    response = me.get(name, **query)

    assert response.status_code == 400
    assert list(response.json()) == list(query)


@pytest.mark.parametrize("name", ["ordering", "search", "x", "status__in", "user_id", "\x00"])
@pytest.mark.parametrize("value", ["\x00", "-id", "9" * 100])
def test_unknown_names_are_ignored(shown, user, name, value):
    assert shown(**{name: value}) == set()
