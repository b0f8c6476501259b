import importlib

import pytest
from django.contrib import admin as django_admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.core.files.base import ContentFile
from django.core.files.storage import storages
from django.urls import clear_url_caches, reverse

from django_jobs.models import Asset, Job, JobTransition
from django_jobs.testing import make_job
from tests import urls
from tests.admin.conftest import address, messages_of

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("status", ["completed", "partial", "failed"])
def test_a_job_that_has_ended_is_deleted_with_all_that_belongs_to_it(
    as_admin, admin, user, status, django_capture_on_commit_callbacks
):
    job = make_job(user, status)
    path = storages["default"].save("a.txt", ContentFile(b"hello"))
    Asset.objects.create(
        job=job, user=user, asset_type="text", name="a.txt", storage="default", storage_path=path
    )

    assert as_admin.get(address("job_delete", job.pk)).status_code == 200
    with django_capture_on_commit_callbacks(execute=True):
        response = as_admin.post(address("job_delete", job.pk), {"post": "yes"})

    assert response.status_code == 302
    assert "was deleted successfully" in messages_of(response)[0]
    for model in (Job, Asset, JobTransition):
        assert not model.objects.exists()
    assert not storages["default"].exists(path)
    assert LogEntry.objects.get().user == admin


@pytest.mark.parametrize("status", ["queued", "processing"])
def test_a_live_job_is_not_deleted(as_admin, user, status):
    job = make_job(user, status)

    assert address("job_delete", job.pk) not in as_admin.get(address("job_change", job.pk)).text
    assert as_admin.post(address("job_delete", job.pk), {"post": "yes"}).status_code == 403
    assert Job.objects.exists()


def test_who_may_delete_jobs_may_delete_those_with_assets(as_staff, user):
    job = make_job(user, "failed")
    Asset.objects.create(job=job, user=user, asset_type="text", name="a.txt")

    response = as_staff("view_job", "delete_job").post(
        address("job_delete", job.pk), {"post": "yes"}
    )

    assert response.status_code == 302
    assert not Job.objects.exists()


def test_a_user_with_jobs_can_still_be_deleted(as_admin, user, request):
    model = get_user_model()
    if not django_admin.site.is_registered(model):
        django_admin.site.register(model)
        request.addfinalizer(lambda: django_admin.site.unregister(model))
        _reload_urls()
        request.addfinalizer(_reload_urls)
    make_job(user, "failed")
    running = make_job(user, "processing")
    Asset.objects.create(job=running, user=user, asset_type="text", name="a.txt")
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}_delete"

    response = as_admin.post(reverse(name, args=[user.pk]), {"post": "yes"})

    assert response.status_code == 302
    assert not model.objects.filter(pk=user.pk).exists()
    assert not Job.objects.exists()


def _reload_urls():
    importlib.reload(urls)
    clear_url_caches()
