"""What the API answers to the errors of the services: one table."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from rest_framework.exceptions import APIException, ErrorDetail, NotFound, ValidationError
from rest_framework.response import Response

from django_jobs import exceptions
from django_jobs.models.transient import TRANSIENT
from django_jobs.services.downloads import AssetFileMissing, AssetStorageDown


@dataclass(frozen=True)
class Answer:
    """A status with a stable code; ``field`` is the part of the request that the error is about."""

    status: int
    code: str
    field: str = ""


logger = logging.getLogger(__name__)
NOT_FOUND = Answer(404, "not_found")
NO_DATABASE = Answer(503, "database_unavailable")
RETRY_AFTER = 5  # seconds

ANSWERS: dict[type[exceptions.JobsError], Answer] = {
    exceptions.UnknownJobType: Answer(400, "unknown_job_type", field="job_type"),
    exceptions.InvalidParameters: Answer(400, "invalid_parameters", field="parameters"),
    exceptions.JobNotFound: NOT_FOUND,
    exceptions.JobAccessDenied: NOT_FOUND,  # whoever may not see a job does not learn of it
    AssetFileMissing: Answer(404, "asset_file_missing"),
    exceptions.InvalidStateTransitionError: Answer(409, "invalid_state_transition"),
    exceptions.JobNotDeletable: Answer(409, "job_not_deletable"),
    exceptions.JobNotRetryable: Answer(409, "job_not_retryable"),
    exceptions.StaleJob: Answer(409, "stale_job"),
    exceptions.IdempotencyConflict: Answer(422, "idempotency_conflict"),
    exceptions.TooManyActiveJobs: Answer(429, "too_many_active_jobs"),
    AssetStorageDown: Answer(503, "asset_storage_down"),
}


class JobsAPIError(APIException):
    """An error of the services as DRF raises them."""

    def __init__(self, answer: Answer, message: str, wait: int | None = None) -> None:
        self.status_code = answer.status
        self.wait = wait  # seconds: DRF makes it the header Retry-After
        super().__init__(message, answer.code)


def as_api_error(error: Exception) -> Exception:
    """Return what DRF should handle in place of ``error``: the same where it is not of ours."""
    if isinstance(error, TRANSIENT):
        logger.error("the database did not answer a request", exc_info=error)
        message = "The database cannot answer now. Try again in a moment."
        return JobsAPIError(NO_DATABASE, message, RETRY_AFTER)
    answer = next((ANSWERS[kind] for kind in type(error).__mro__ if kind in ANSWERS), None)
    if answer is None:
        return error
    if answer is NOT_FOUND:
        return NotFound()  # one answer for what is absent and for what is somebody else's
    if answer.field:
        details = getattr(error, "errors", [str(error)])
        return ValidationError({answer.field: details}, answer.code)
    return JobsAPIError(answer, str(error))


def add_code(response: Response) -> None:
    """Put the code of an error beside its ``detail``."""
    data: Any = response.data
    detail = data.get("detail") if isinstance(data, dict) else None
    if isinstance(detail, ErrorDetail):
        data.setdefault("code", detail.code)
