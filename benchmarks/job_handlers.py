"""The jobs that are measured."""

import time

from django_jobs.execution import JobContext
from django_jobs.handlers import job_handler


@job_handler("noop")
def noop(job: JobContext) -> None:
    """Do nothing: what is left is the cost of the queue."""


@job_handler("sleep")
def sleep(job: JobContext) -> None:
    """Be busy until killed."""
    time.sleep(600)
