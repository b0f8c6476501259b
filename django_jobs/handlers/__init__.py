"""Declaring types of jobs: ``@job_handler``, ``register_job_type`` and the registry behind them."""

from django_jobs.handlers.job_type import AUTHENTICATED, JobType
from django_jobs.handlers.registry import autodiscover, job_handler, register_job_type, registry

__all__ = [
    "AUTHENTICATED",
    "JobType",
    "autodiscover",
    "job_handler",
    "register_job_type",
    "registry",
]
