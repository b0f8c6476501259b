"""What a job is and which steps are legal."""

from django_jobs.models.asset import Asset
from django_jobs.models.job import Job
from django_jobs.models.transition import JobTransition
from django_jobs.states import FailureCode, JobStatus

__all__ = ["Asset", "FailureCode", "Job", "JobStatus", "JobTransition"]
