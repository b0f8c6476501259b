"""Handing out the stored file of an asset."""

from __future__ import annotations

import logging
import re
from pathlib import PurePosixPath
from typing import Any

from django.core.files.storage import storages
from django.http import FileResponse

from django_jobs.exceptions import JobsError
from django_jobs.models import Asset

logger = logging.getLogger(__name__)
_PLAIN_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(; ?charset=[\w-]+)?", re.ASCII)


class AssetFileMissing(JobsError):
    """The asset has no file, or its file cannot be opened."""


def has_file(asset: Asset) -> bool:
    """Say whether ``asset`` is a file in a storage of ours (it may be gone all the same)."""
    return bool(asset.storage and asset.storage_path)


def download_response(asset: Asset) -> FileResponse:
    """Return the file of ``asset`` as a download that no browser shows or runs in place.

    Asks for no permission. Raises ``AssetFileMissing``.
    """
    response = FileResponse(
        _opened(asset),
        as_attachment=True,
        filename=_file_name(asset),
        content_type=_content_type(asset),
    )
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response["Cache-Control"] = "private, no-store"
    return response


def _opened(asset: Asset) -> Any:
    if not has_file(asset):
        raise AssetFileMissing(f"The asset {asset.pk} has no file.")
    try:
        return storages[asset.storage].open(asset.storage_path)
    except Exception as error:  # a storage may raise anything
        logger.warning("job %s: %s cannot be opened", asset.job_id, asset.storage_path)
        raise AssetFileMissing(f"The file of the asset {asset.pk} cannot be opened.") from error


def _file_name(asset: Asset) -> str:
    """The name without folders, and without what would break or disguise itself in a header."""
    name = PurePosixPath(asset.name).name
    return "".join(character if character.isprintable() else "_" for character in name) or "asset"


def _content_type(asset: Asset) -> str:
    """The type that the handler gave, if it is one: it becomes a header."""
    is_plain = _PLAIN_TYPE.fullmatch(asset.content_type)
    return asset.content_type if is_plain else "application/octet-stream"
