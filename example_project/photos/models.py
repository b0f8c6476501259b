"""What users bring along."""

import uuid

from django.conf import settings
from django.core.files.storage import Storage, storages
from django.db import models


def private_storage() -> Storage:
    return storages["uploads"]


def upload_path(upload: "PhotoUpload", _filename: str) -> str:
    """Nothing of a name that a user chose gets into a path."""
    return f"{upload.user_id}/{uuid.uuid4()}.zip"


class PhotoUpload(models.Model):
    """A zip of photographs that a user has uploaded."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="photo_uploads"
    )
    file = models.FileField(upload_to=upload_path, storage=private_storage)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"upload {self.pk}"
