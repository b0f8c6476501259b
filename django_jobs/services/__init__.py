"""Everything that is done to jobs: one function per intention, each with an async twin."""

from django_jobs.services.assets import create_asset
from django_jobs.services.asynchronous import (
    acancel_job,
    acreate_asset,
    acreate_job,
    acreate_jobs,
    aget_job,
    aget_job_assets,
    amark_completed,
    amark_failed,
    amark_partial,
    aretry_job,
    atransition_status,
    aupdate_progress,
)
from django_jobs.services.creation import create_job, create_jobs
from django_jobs.services.lifecycle import (
    mark_completed,
    mark_failed,
    mark_partial,
    transition_status,
)
from django_jobs.services.lookup import get_job, get_job_assets
from django_jobs.services.progress import update_progress
from django_jobs.services.steering import cancel_job, retry_job

__all__ = [
    "acancel_job",
    "acreate_asset",
    "acreate_job",
    "acreate_jobs",
    "aget_job",
    "aget_job_assets",
    "amark_completed",
    "amark_failed",
    "amark_partial",
    "aretry_job",
    "atransition_status",
    "aupdate_progress",
    "cancel_job",
    "create_asset",
    "create_job",
    "create_jobs",
    "get_job",
    "get_job_assets",
    "mark_completed",
    "mark_failed",
    "mark_partial",
    "retry_job",
    "transition_status",
    "update_progress",
]
