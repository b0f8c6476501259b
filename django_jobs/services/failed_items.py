"""The failed items of a job: few are in its row, the whole list of many is an asset (JSON lines).

Each is ``{"name", "error"}``. ``"cut": true`` marks a name that could not be kept as it was.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from typing import Any

from django.core.files.storage import storages

from django_jobs.conf import conf
from django_jobs.exceptions import JobNotRetryable
from django_jobs.models import Asset, FailureCode, Job
from django_jobs.values import clean_error, clean_text, describe_exception

IN_ROW = 100  # more than that are an asset
MAX_NAME_CHARS = 500
MAX_ERROR_CHARS = 300
ASSET_NAME = "failed_items.jsonl"
ASSET_TYPE = "failed_items"
CONTENT_TYPE = "application/x-ndjson"
ENDED_BY_ITEMS = (FailureCode.SOME_ITEMS_FAILED, FailureCode.ALL_ITEMS_FAILED)
logger = logging.getLogger(__name__)

FailedItem = dict[str, Any]


def failed_item(name: Any, error: Exception) -> FailedItem:
    """Describe one, whatever its name and its error are."""
    try:
        text, is_cut = str(name), False
    except Exception:  # noqa: BLE001 - user code: its error must not hide the item's
        text, is_cut = type(name).__name__, True
    kept = clean_text(text, MAX_NAME_CHARS)
    reason = clean_error(describe_exception(error))
    item: FailedItem = {"name": kept, "error": clean_text(reason, MAX_ERROR_CHARS)}
    return {**item, "cut": True} if is_cut or kept != text else item


def as_line(item: FailedItem) -> bytes:
    return json.dumps(item, ensure_ascii=False).encode() + b"\n"


def check_failed_items(job: Job) -> None:
    """Raise ``JobNotRetryable`` unless the failed items of ``job`` can be retried alone.

    Reads no file. Costs a query where they are many.
    """
    known = job.type
    if known is None or not known.retry_failed_items:
        raise JobNotRetryable(f"The type {job.job_type} cannot retry the failed items alone.")
    if job.failure_code not in ENDED_BY_ITEMS:
        raise JobNotRetryable(f"Job {job.pk} did not come to the end of its items.")
    if not job.items_failed:
        raise JobNotRetryable(f"Job {job.pk} has no failed items.")
    if job.items_failed > len(job.failed_items) and _asset_of(job) is None:
        raise _list_is_gone(job)


def names_of_failed_items(job: Job) -> list[str]:
    """Return the names of all failed items of ``job``, each once, or raise ``JobNotRetryable``."""
    check_failed_items(job)
    names: dict[str, None] = {}
    count = size = 0
    for item in _failed_items(job):
        if item.get("cut"):
            raise JobNotRetryable(
                f"A failed item of job {job.pk} has a name that cannot be given to a retry: "
                f"it is longer than {MAX_NAME_CHARS} characters, or cannot be stored."
            )
        count += 1
        size += len(item["name"].encode()) + 4  # quotes, comma, blank
        if size > conf.MAX_PARAMETERS_BYTES:
            raise JobNotRetryable(f"Job {job.pk} has too many failed items to retry them alone.")
        names[item["name"]] = None
    if count != job.items_failed:
        raise _list_is_gone(job)
    return list(names)


def _failed_items(job: Job) -> Iterable[FailedItem]:
    return _listed_items(job) if job.items_failed > len(job.failed_items) else job.failed_items


def _listed_items(job: Job) -> Iterator[FailedItem]:
    asset = _asset_of(job)
    if asset is None:
        raise _list_is_gone(job)
    try:
        with storages[asset.storage].open(asset.storage_path) as file:
            for line in file:
                item = json.loads(line)
                yield {**item, "name": str(item["name"])}
    except JobNotRetryable:
        raise
    except Exception as error:  # a storage may raise anything, and a file hold anything
        logger.warning("job %s: the list of its failed items cannot be read: %r", job.pk, error)
        raise _list_is_gone(job) from error


def _asset_of(job: Job) -> Asset | None:
    """The list that the attempt which ended the job has stored; an earlier one's does not count."""
    return (
        Asset.objects.using(job._state.db)
        .filter(job_id=job.pk, name=ASSET_NAME, asset_type=ASSET_TYPE, attempt=job.attempt)
        .exclude(storage="")
        .first()
    )


def _list_is_gone(job: Job) -> JobNotRetryable:
    return JobNotRetryable(f"The list of the failed items of job {job.pk} cannot be read.")
