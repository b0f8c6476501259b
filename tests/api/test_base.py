"""The viewsets under a router of the project's own."""

import pytest
from django.urls import include, path
from rest_framework.permissions import BasePermission
from rest_framework.routers import DefaultRouter
from rest_framework.test import APIClient

from django_jobs.api.assets import AssetViewSet
from django_jobs.api.job_types import JobTypeViewSet
from django_jobs.api.jobs import JobViewSet
from django_jobs.models import JobStatus
from django_jobs.testing import make_job
from tests.api.callers import attach_file

pytestmark = pytest.mark.django_db


class Nobody(BasePermission):
    def has_permission(self, request, view):
        return False


class OwnJobs(JobViewSet):
    basenames = {"asset": "file"}


class OwnAssets(AssetViewSet):
    basenames = {"job": "task"}


class ClosedJobs(JobViewSet):
    permission_classes = [Nobody]


router = DefaultRouter()
router.register("tasks", OwnJobs, basename="task")
router.register("files", OwnAssets, basename="file")
router.register("kinds", JobTypeViewSet, basename="kind")
lonely = DefaultRouter()
lonely.register("jobs", JobViewSet, basename="lonely")
lonely.register("closed", ClosedJobs, basename="closed")

urlpatterns = [
    path("own/", include(router.urls)),
    path("spaced/", include((router.urls, "space"))),
    path("lonely/", include(lonely.urls)),
]


@pytest.fixture
def client(user, settings):
    settings.ROOT_URLCONF = __name__
    client = APIClient()
    client.force_authenticate(user)
    return client


@pytest.mark.parametrize("prefix", ["own", "spaced"])
def test_links_lead_through_the_router_that_was_called(client, user, open_type, prefix):
    job = make_job(user, JobStatus.FAILED, job_type=open_type)
    asset = attach_file(job)
    root = f"http://testserver/{prefix}"

    (listed,) = client.get(f"/{prefix}/tasks/").json()["results"]
    (attached,) = client.get(listed["urls"]["assets"]).json()["results"]

    assert listed["urls"]["self"] == f"{root}/tasks/{job.pk}/"
    assert attached["urls"] == {
        "self": f"{root}/files/{asset.pk}/",
        "download": f"{root}/files/{asset.pk}/download/",
        "job": f"{root}/tasks/{job.pk}/",
    }
    assert client.get(attached["urls"]["self"]).json() == attached
    assert client.get(f"{root}/kinds/").json()[-1]["urls"]["self"].startswith(f"{root}/kinds/")
    created = client.post(f"/{prefix}/tasks/", {"job_type": open_type}, format="json")
    assert created.headers["Location"].startswith(f"{root}/tasks/")


def test_where_assets_have_no_routes_there_are_no_links_to_them(client, user):
    job = make_job(user)
    attach_file(job)

    (attached,) = client.get(f"/lonely/jobs/{job.pk}/assets/").json()["results"]

    assert attached["urls"] == {
        "self": None,
        "download": None,
        "job": f"http://testserver/lonely/jobs/{job.pk}/",
    }


def test_permission_classes_are_the_project_s_to_choose(client):
    assert client.get("/lonely/closed/").status_code == 403


def test_a_router_that_adds_formats_gives_json(client, user, open_type):
    job = make_job(user)

    assert client.get(f"/own/tasks/{job.pk}.json").json()["id"] == str(job.pk)
    assert client.get(f"/own/kinds/{open_type}.json").json()["name"] == open_type
