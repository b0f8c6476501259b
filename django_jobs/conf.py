"""The settings: one dict ``DJANGO_JOBS``, its defaults beside the names, read at use."""

from __future__ import annotations

import os
from typing import Any

from django.conf import settings as django_settings

MIB = 1024 * 1024


class JobsSettings:
    """Attributes are the defaults; ``settings.DJANGO_JOBS`` overrides them. Seconds unless said."""

    ENGINE: str = "django_q"  # or "immediate": run at commit in the calling process
    QUEUES: list[str] = ["default"]  # served by this process; DJANGO_JOBS_QUEUES=a,b overrides
    LEASE: float = 30  # how long a silent worker keeps its job (SQLite: 60 unless set)
    TICK: float = 5  # how often a keeper renews the lease
    POLL: float = 1  # longest wait before looking at the table again
    NOTIFY: bool = True  # LISTEN/NOTIFY on PostgreSQL
    GRACE: float = 5  # between the interrupt of a handler and its forced end
    SHUTDOWN_GRACE: float = 60  # how long a stopping worker waits for running jobs
    DRAIN: float = 5  # how long one drain goes on claiming
    DEFAULT_TIMEOUT: float | None = 3600
    DEFAULT_QUEUE_TIMEOUT: float | None = 86400
    DEFAULT_MAX_ATTEMPTS: int = 1
    DEFAULT_RETRY_DELAY: float = 10
    MAX_PARAMETERS_BYTES: int = MIB
    MAX_RESULT_BYTES: int = MIB
    MAX_JSON_DEPTH: int = 31  # MariaDB stores no more
    MAX_ERROR_CHARS: int = 4000
    MAX_USER_PRIORITY: int = 0
    STORAGE: str = "django_jobs"  # alias in STORAGES; falls back to "default"
    REDIRECT_DOWNLOADS: bool = False  # to the addresses that a remote storage signs
    RETENTION_DAYS: float | None = None
    REDACTOR: str = "django_jobs.redaction.redact_secrets"  # a function text -> text
    SYSTEM_USER: str | None = None  # login of the user whose jobs nobody ordered

    def __getattribute__(self, name: str) -> Any:
        if name.isupper():
            overrides = getattr(django_settings, "DJANGO_JOBS", {})
            if name in overrides:
                return overrides[name]
        return super().__getattribute__(name)

    @property
    def queues(self) -> list[str]:
        """The queues that this process serves."""
        from_environment = os.environ.get("DJANGO_JOBS_QUEUES", "")
        return [name.strip() for name in from_environment.split(",") if name.strip()] or list(
            self.QUEUES
        )

    def lease(self, vendor: str) -> float:
        """The lease in seconds on a database of ``vendor`` ("sqlite", "postgresql", "mysql")."""
        is_set = "LEASE" in getattr(django_settings, "DJANGO_JOBS", {})
        return 60 if vendor == "sqlite" and not is_set else self.LEASE

    @property
    def io_timeout(self) -> float:
        """Longest time that a statement of a keeper or a settler may take; below one tick."""
        return min(3.0, self.TICK * 0.6)

    @property
    def least_backoff(self) -> float:
        """Shortest wait between two attempts: longer than a worker needs to be gone."""
        return min(5.0, self.TICK)


conf = JobsSettings()
