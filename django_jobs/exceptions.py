"""What can go wrong, one class each; the first line of a docstring is what a user reads."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ObjectDoesNotExist, PermissionDenied
from django_fsm import TransitionNotAllowed


class JobsError(Exception):
    """Something is wrong with a job."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (self.__doc__ or "").partition("\n")[0])


class InvalidStateTransitionError(JobsError, TransitionNotAllowed):
    """The job cannot take this step from the state it is in."""

    def __init__(self, current: str, target: str) -> None:
        self.current = str(current)
        self.target = str(target)
        super().__init__(f"Cannot transition from '{self.current}' to '{self.target}'")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.current, self.target)


class StaleJob(JobsError):
    """The job has changed since it was loaded."""


class LeaseLost(JobsError):
    """The attempt is no longer, or was never, the caller's to write for."""


class JobNotFound(JobsError, ObjectDoesNotExist):
    """There is no such job."""


class JobAccessDenied(JobsError, PermissionDenied):
    """The job belongs to somebody else."""


class UnknownJobType(JobsError):
    """There is no such type of job."""


class InvalidParameters(JobsError):
    """The parameters of the job are not valid.

    ``errors`` has DRF's shape: lists of messages under field names, nested as the parameters are.
    """

    def __init__(self, errors: Any) -> None:
        self.errors = errors
        super().__init__(f"The parameters of the job are not valid: {errors}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.errors,)


class InvalidResult(JobsError, ValueError):
    """The result of the job cannot be stored."""


class IdempotencyConflict(JobsError):
    """This idempotency key was used for another request."""


class TooManyActiveJobs(JobsError):
    """You have too many active jobs of this type."""


class JobNotRetryable(JobsError):
    """The job cannot be retried."""


class JobNotDeletable(JobsError):
    """Only a job that has ended can be deleted."""


class JobFailed(JobsError):
    """The job failed.

    A handler raises it to end its job FAILED with a text for the user. It is not repeated
    unless ``retry=True``, while attempts are left.
    """

    def __init__(self, message: str = "", *, retry: bool = False) -> None:
        self.retry = retry
        super().__init__(message)


class AttemptInterrupted(BaseException):
    """The attempt is stopped from outside; no ``except Exception`` holds it up."""


class JobCancelled(AttemptInterrupted):
    """The job was cancelled."""


class JobTimedOut(AttemptInterrupted):
    """The job took longer than it may."""


class AttemptLost(AttemptInterrupted):
    """The lease of this attempt can no longer be kept."""


class WorkerStopping(AttemptInterrupted):
    """The worker is being shut down."""
