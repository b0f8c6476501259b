"""Jobs and assets in Django's admin: looked at, cancelled, retried, deleted; never edited."""

from django_jobs.admin.asset import AssetAdmin
from django_jobs.admin.job import JobAdmin

__all__ = ["AssetAdmin", "JobAdmin"]
