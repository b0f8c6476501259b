"""Settings of a project that would hand out the files of jobs to everybody."""

from tests.settings import *  # noqa: F403

MEDIA_ROOT = "/srv/media"
MEDIA_URL = "/media/"
STORAGES = {
    **STORAGES,  # noqa: F405
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
}
