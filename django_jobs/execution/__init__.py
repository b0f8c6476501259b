"""What a handler is given, and what it may give back."""

from django_jobs.execution.context import JobContext
from django_jobs.execution.outcome import Partial

__all__ = ["JobContext", "Partial"]
