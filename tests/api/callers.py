"""Callers of the API, and what they find there."""

import json

from django.contrib.auth.models import Permission
from django.core.files.base import ContentFile
from django.core.files.storage import storages
from django.urls import reverse
from rest_framework.test import APIClient

from django_jobs.models import Asset
from tests.conftest import create_user


class Caller:
    """Somebody who calls the API by the names of its routes; ``user`` may be ``None``."""

    def __init__(self, user=None):
        self.user = user
        self.client = APIClient(raise_request_exception=True)
        self.client.force_authenticate(user)

    def get(self, name, key=None, **query):
        headers = query.pop("headers", None)
        return self.client.get(url(name, key), query, headers=headers)

    def post(self, name, key=None, body=None, **options):
        if "format" not in options:
            body = json.dumps(body or {})  # DRF's own encoder refuses what a test may want to send
            options["content_type"] = "application/json"
        return self.client.post(url(name, key), body, **options)

    def delete(self, name, key=None, **options):
        return self.client.delete(url(name, key), **options)

    def order(self, job_type, headers=None, **body):
        return self.post("job-list", body={"job_type": job_type, **body}, headers=headers)


def url(name, key=None):
    return reverse(f"django_jobs:{name}", args=[] if key is None else [key])


def create_staff(*codenames):
    """Create a member of the staff with permissions of ours."""
    return allow(create_user(is_staff=True), *codenames)


def allow(user, *codenames):
    permissions = Permission.objects.filter(
        content_type__app_label="django_jobs", codename__in=codenames
    )
    assert len(permissions) == len(codenames)
    user.user_permissions.add(*permissions)
    return user


def attach_file(job, name="a.txt", content=b"hello", **fields):
    """Store a file as an asset of ``job``, in whatever state that is."""
    path = storages["default"].save(f"somewhere/{job.pk}/file", ContentFile(content))
    return Asset.objects.create(
        job=job,
        user_id=job.user_id,
        **{
            "name": name,
            "asset_type": "text",
            "content_type": "text/plain",
            "storage": "default",
            "storage_path": path,
            "file_size": len(content),
            **fields,
        },
    )


def attach_link(job, address, **fields):
    return Asset.objects.create(
        job=job, user_id=job.user_id, url=address, **{"name": "link", "asset_type": "x", **fields}
    )
