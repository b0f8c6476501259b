"""What the page of a job shows below its facts: the log, and what the job made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.template.defaultfilters import filesizeformat
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from django_jobs.admin.rendering import (
    asset_address,
    failure_code,
    link,
    moment_element,
    status_badge,
)
from django_jobs.models import Asset, Job, JobTransition
from django_jobs.services.downloads import has_file

if TYPE_CHECKING:
    from django_jobs.admin.readonly import ReadOnlyAdmin

SHOWN = 200  # steps, and assets


@dataclass(frozen=True)
class Step:
    """One line of the log."""

    when: SafeString
    from_status: SafeString | str
    to_status: SafeString
    attempt: int
    actor: Any
    worker: str
    code: SafeString | str
    message: str
    detail: str


@dataclass(frozen=True)
class Made:
    """One asset."""

    name: SafeString
    asset_type: str
    size: str
    when: SafeString
    content: SafeString


def steps_of(job: Job) -> tuple[list[Step], bool]:
    """Return the last ``SHOWN`` steps, newest last, and whether there were more."""
    found = list(
        JobTransition.objects.using(job._state.db)
        .filter(job_id=job.pk)
        .select_related("actor")
        .order_by("-id")[: SHOWN + 1]
    )
    return [_step(entry) for entry in reversed(found[:SHOWN])], len(found) > SHOWN


def assets_of(job: Job, site: ReadOnlyAdmin) -> tuple[list[Made], bool]:
    """Return the first ``SHOWN`` assets, and whether there are more."""
    found = list(
        Asset.objects.using(job._state.db).filter(job_id=job.pk).order_by("id")[: SHOWN + 1]
    )
    return [_made(asset, site) for asset in found[:SHOWN]], len(found) > SHOWN


def content_of(asset: Asset, site: ReadOnlyAdmin) -> SafeString:
    """Where to get the content of ``asset``: a download of ours, or its own address."""
    if has_file(asset):
        return link(site.address("django_jobs_asset_download", asset.pk), _("Download"))
    return asset_address(asset)


def _step(entry: JobTransition) -> Step:
    return Step(
        when=moment_element(entry.created_at),
        from_status=status_badge(entry.from_status) if entry.from_status else "-",
        to_status=status_badge(entry.to_status),
        attempt=entry.attempt,
        actor=entry.actor or "-",
        worker=entry.worker or "-",
        code=failure_code(entry.code) if entry.code else "",
        message=entry.message,
        detail=entry.detail,
    )


def _made(asset: Asset, site: ReadOnlyAdmin) -> Made:
    return Made(
        name=link(site.address("django_jobs_asset_change", asset.pk), asset.name),
        asset_type=asset.asset_type,
        size=filesizeformat(asset.file_size),
        when=moment_element(asset.created_at),
        content=content_of(asset, site),
    )
