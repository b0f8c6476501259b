"""The outcome of a job as text, and as an exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from django.core.files.storage import InvalidStorageError, storages
from django.template.defaultfilters import filesizeformat

from django_jobs.models import Asset, Job, JobStatus

EXIT_CODES = {JobStatus.COMPLETED: 0, JobStatus.PARTIAL: 3, JobStatus.FAILED: 1}


def outcome_lines(job: Job) -> Iterator[str]:
    """Yield what became of a job that has ended: outcome, message, items, result, assets."""
    code = f" ({job.failure_code})" if job.failure_code else ""
    yield f"outcome: {job.status}{code}"
    if job.items_total:
        yield (
            f"items: {job.items_total} in all, {job.items_succeeded} succeeded, "
            f"{job.items_failed} failed"
        )
    if job.error_message:
        yield f"message: {job.error_message}"
    if job.result is not None:
        yield f"result: {json.dumps(job.result, ensure_ascii=False)}"
    assets = list(job.assets.order_by("name"))
    if assets:
        yield "assets:"
    for asset in assets:
        size = filesizeformat(asset.file_size).replace("\xa0", " ")
        yield f"  {asset.name} ({size}): {place_of(asset)}"


def place_of(asset: Asset) -> str:
    """Return where an asset is: its address, its file on this machine, or its storage and key."""
    return asset.url or _file_of(asset) or f"{asset.storage}:{asset.storage_path}"


def _file_of(asset: Asset) -> str:
    try:
        path = Path(storages[asset.storage].path(asset.storage_path))
    except (InvalidStorageError, NotImplementedError):  # unknown here, or not on a disk
        return ""
    return str(path) if path.exists() else ""
