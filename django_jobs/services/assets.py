"""Linking what a job made to the job."""

from __future__ import annotations

import uuid
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from django.db.models import F

from django_jobs.exceptions import JobAccessDenied, LeaseLost
from django_jobs.models import Asset, JobStatus, clock, persistence
from django_jobs.models.attempts import EXTERNAL
from django_jobs.models.transient import in_transaction
from django_jobs.services.fencing import Fence, check_fence
from django_jobs.services.files import StoredFile, remove_at_commit
from django_jobs.services.lookup import load_job
from django_jobs.values import storable_text

MAX_ASSET_NAME = 255
MAX_ASSET_TYPE = 50
MAX_CONTENT_TYPE = 100
MAX_LOCATION = 8000
WEB_SCHEMES = ("http", "https")


def create_asset(
    job_id: uuid.UUID | str,
    user: Any,
    asset_type: str,
    url: str,
    storage_path: str,
    file_size: int,
    *,
    name: str | None = None,
) -> Asset:
    """Link a file or an address to the running job of ``user`` and return the asset.

    ``file_size`` is in bytes. An asset of the same ``name`` is replaced; without one the asset is
    called after its path. ``url`` is http(s), a path of this site or empty. Raises ``JobNotFound``,
    ``JobAccessDenied``, ``LeaseLost`` (not running, or not the caller's), ``ValueError``.
    """
    job = load_job(job_id)
    if job.user_id != user.pk:
        raise JobAccessDenied
    if job.status != JobStatus.PROCESSING:
        raise LeaseLost(f"Job {job.pk} is {job.status}: it takes no assets.")
    check_fence(job, None)
    asset = Asset(
        job=job,
        user=user,
        attempt=job.attempt,
        asset_type=storable_text("asset_type", asset_type, MAX_ASSET_TYPE),
        url=checked_url(url),
        storage_path=storable_text("storage_path", storage_path, MAX_LOCATION, may_be_blank=True),
        file_size=_checked_size(file_size),
        name="" if name is None else storable_text("name", name, MAX_ASSET_NAME),
    )
    renewal = {}
    if job.worker.startswith(EXTERNAL):
        job.renew_external_lease()
        renewal["due_at"] = job.due_at
    return attach(asset, Fence.of(job), persistence.alias_of(job), **renewal)


def attach(asset: Asset, fence: Fence, alias: str, **renewal: Any) -> Asset:
    """Write an asset of an open attempt, in one transaction with the proof that it is still open.

    Raises ``LeaseLost`` if it is not. An asset of the same name is replaced.
    """
    name = asset.name

    def write() -> bool:
        rows = fence.row(alias).guarded_update(
            updated_at=clock.now(alias), version=F("version") + 1, **renewal
        )
        if rows:
            asset.name = name or _free_name(asset, alias)
            _replace(asset, alias)
        return bool(rows)

    if not in_transaction(alias, write):
        raise LeaseLost(f"Attempt {fence.attempt} of job {fence.job_id} is over.")
    return asset


def checked_url(url: str) -> str:
    """Return an address that is safe as a link: http(s) or a path of this site."""
    storable_text("url", url, MAX_LOCATION, may_be_blank=True)
    if not url:
        return url
    parts = urlsplit(url)
    is_web = parts.scheme in WEB_SCHEMES and bool(parts.hostname) and "@" not in parts.netloc
    is_path = url.startswith("/") and not url.startswith("//")  # browsers skip further slashes
    if url != url.strip() or not url.isprintable() or "\\" in url or not (is_web or is_path):
        raise ValueError(f"url must be http(s) or a path of this site, not {url!r:.80}")
    return url


def _checked_size(size: int) -> int:
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size < 2**63:
        raise ValueError(f"file_size must be a number of bytes, not {size!r:.50}")
    return size


def _free_name(asset: Asset, alias: str) -> str:
    wanted = PurePosixPath(asset.storage_path or urlsplit(asset.url).path).name
    wanted = (wanted if wanted.strip() else asset.asset_type)[: MAX_ASSET_NAME - 8]
    taken = set(
        Asset.objects.using(alias)
        .filter(job_id=asset.job_id, name__startswith=wanted)
        .values_list("name", flat=True)
    )
    numbered = (f"{wanted} ({number})" for number in range(2, len(taken) + 3))
    return next(name for name in (wanted, *numbered) if name not in taken)


def _replace(asset: Asset, alias: str) -> None:
    earlier = Asset.objects.using(alias).filter(job_id=asset.job_id, name=asset.name).first()
    if earlier is None:
        asset.save(force_insert=True, using=alias)
    else:
        asset.pk = earlier.pk
        asset.save(force_update=True, using=alias)
        remove_at_commit(StoredFile.of(earlier), alias)
