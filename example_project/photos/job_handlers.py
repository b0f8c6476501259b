"""The jobs of the photos app; ``django_jobs`` finds this module by its name."""

import datetime as dt
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

from django.utils import timezone
from rest_framework import serializers

from django_jobs.exceptions import JobFailed
from django_jobs.execution import JobContext
from django_jobs.handlers import AUTHENTICATED, job_handler
from example_project.photos.archives import ArchiveRefused
from example_project.photos.models import PhotoUpload
from example_project.photos.pictures import make_thumbnail
from example_project.photos.sources import FOLDERS, Photo, photos_in_folder, photos_in_upload


class ThumbnailParameters(serializers.Serializer):
    """What a ``thumbnails`` job is asked for: one of our folders, or an upload by its id.

    ``size`` is the longer edge in pixels.
    """

    folder = serializers.ChoiceField(choices=sorted(FOLDERS), required=False)
    upload = serializers.IntegerField(min_value=1, max_value=2**63 - 1, required=False)
    size = serializers.IntegerField(min_value=16, max_value=1024, default=320)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "folder" in attrs and "upload" in attrs:
            raise serializers.ValidationError("Give a folder or an upload, not both.")
        return attrs if "upload" in attrs else {"folder": "samples", **attrs}


@job_handler(
    "thumbnails",
    parameters=ThumbnailParameters,
    timeout=300,
    max_attempts=3,
    retry_failed_items=True,
    permission=AUTHENTICATED,
    title="Thumbnails",
    description="Make a JPEG thumbnail of each photograph in a folder or in a zip of yours.",
)
def make_thumbnails(job: JobContext) -> dict[str, Any]:
    size = job.parameters["size"]
    if "folder" in job.parameters:
        _make_each(job, photos_in_folder(job.parameters["folder"]), size)
        return {"size": size}
    try:
        with photos_in_upload(_own_upload(job)) as photos:
            _make_each(job, photos, size)
    except ArchiveRefused as error:  # another attempt would find the same
        raise JobFailed(str(error)) from error
    except FileNotFoundError as error:
        raise JobFailed("The file of the upload is gone.") from error
    return {"size": size}


class PruneParameters(serializers.Serializer):
    """``days``: uploads that are older go."""

    days = serializers.IntegerField(min_value=1, max_value=36500, default=30)


@job_handler(
    "prune_uploads",
    parameters=PruneParameters,
    timeout=3600,
    max_attempts=3,
    permission="photos.delete_photoupload",
    title="Prune uploads",
    description="Delete old uploads and their files; ordered every night.",
)
def prune_uploads(job: JobContext) -> dict[str, Any]:
    oldest = timezone.now() - dt.timedelta(days=job.parameters["days"])
    for upload in job.track(list(PhotoUpload.objects.filter(created_at__lt=oldest)), "Deleting"):
        with job.item(upload):
            upload.file.delete(save=False)
            upload.delete()
    return {"deleted": job.items.succeeded}


def _make_each(job: JobContext, photos: Iterable[Photo], size: int) -> None:
    taken: set[str] = set()
    for name, read in job.track(photos, "Resizing"):
        if job.failed_items is not None and name not in job.failed_items:
            continue  # a retry of the failed ones alone
        with job.item(name):
            thumbnail = make_thumbnail(read(), size)
            asset_name = _free_name(PurePosixPath(name).stem, size, taken)
            job.save_asset(asset_name, thumbnail, "thumbnail", "image/jpeg")


def _own_upload(job: JobContext) -> PhotoUpload:
    """A foreign upload is as unknown as one that never was."""
    try:
        return PhotoUpload.objects.get(pk=job.parameters["upload"], user=job.user)
    except PhotoUpload.DoesNotExist:
        raise JobFailed("You have no such upload.") from None


def _free_name(stem: str, size: int, taken: set[str]) -> str:
    """Two folders of a zip may hold files of one name."""
    name, number = f"{stem}-{size}.jpg", 1
    while name in taken:
        number += 1
        name = f"{stem}-{size} ({number}).jpg"
    taken.add(name)
    return name
