"""System checks: what is wrong with the settings, said before a job has to find out.

Each has a stable id and a hint, and a line in ``docs/checks.md``.
"""

from django.core.checks import Tags, register

from django_jobs.checks.clusters import check_clusters
from django_jobs.checks.databases import check_database_settings, check_journal_mode
from django_jobs.checks.settings import check_settings
from django_jobs.checks.storages import check_storage

TAG = "django_jobs"


def register_checks() -> None:
    """Make ``manage.py check`` (and most other commands) run them."""
    register(check_settings, TAG)
    register(check_clusters, TAG)
    register(check_database_settings, TAG)
    register(check_storage, TAG)
    register(check_journal_mode, TAG, Tags.database)
