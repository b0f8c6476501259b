"""What a handler is given: its job, and the ways to tell how it goes."""

from __future__ import annotations

import datetime as dt
import logging
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, TypeVar

from asgiref.sync import sync_to_async

from django_jobs.exceptions import JobCancelled
from django_jobs.execution.items import Items
from django_jobs.models import Asset, Job
from django_jobs.models.job import MAX_PROGRESS_MESSAGE
from django_jobs.services.fencing import Fence
from django_jobs.services.stored_assets import Content, link, store
from django_jobs.values import clean_text, whole_percent

T = TypeVar("T")
logger = logging.getLogger("django_jobs.handlers")


class Attempt(Protocol):
    """How the engine that runs an attempt takes reports: at once (immediate) or by its keeper."""

    fence: Fence

    @property
    def cancel_requested(self) -> bool: ...

    def report(self, percent: int, message: str | None, items: Items) -> None: ...

    def attach(self, asset: Asset) -> Asset: ...

    def body(self) -> AbstractContextManager[None]: ...


class JobContext:
    """The running attempt of one job, as its handler sees it.

    ``failed_items`` are the names of the items that it is about, if it retries the failed items of
    another job alone; else ``None``: it is about all.
    """

    def __init__(
        self,
        job: Job,
        parameters: dict[str, Any],
        attempt: Attempt,
        items: Items | None = None,
    ) -> None:
        self.id: uuid.UUID = job.pk
        self.job_type: str = job.job_type
        self.parameters = parameters
        self.failed_items: list[str] | None = job.items_to_retry
        self.attempt: int = job.attempt
        self.max_attempts: int = job.max_attempts
        self.deadline: dt.datetime | None = job.run_deadline_at
        self.logger = logging.LoggerAdapter(
            logger, {"job_id": str(job.pk), "job_type": job.job_type, "attempt": job.attempt}
        )
        self.items = Items() if items is None else items
        self._job = job
        self._attempt = attempt
        self._percent = 0
        self._lock = threading.Lock()

    @property
    def user(self) -> Any:
        """The owner of the job; loaded at first use."""
        return self._job.user

    @property
    def cancel_requested(self) -> bool:
        """Whether somebody asked for the job to be cancelled."""
        return self._attempt.cancel_requested

    def raise_if_cancelled(self) -> None:
        """End the attempt here if somebody asked for the job to be cancelled."""
        if self.cancel_requested:
            raise JobCancelled

    def update_progress(self, percent: float, message: str | None = None) -> None:
        """Tell how far the job is: ``percent`` 0..100, and a text for the user.

        It never goes back. Cheap: call it as often as you like, from any thread. Whatever befalls
        its writing does not concern the handler; but ``ValueError`` or ``TypeError`` for what is no
        percentage, ``TypeError`` for a message that is no text.
        """
        if message is not None and not isinstance(message, str):
            raise TypeError(f"the progress message must be a text, not {type(message).__name__}")
        further = whole_percent(percent)
        with self._lock:
            self._percent = max(self._percent, further)
        text = None if message is None else clean_text(message, MAX_PROGRESS_MESSAGE)
        self._attempt.report(self._percent, text, self.items)

    def track(
        self, iterable: Iterable[T], message: str = "", total: int | None = None
    ) -> Iterator[T]:
        """Yield from ``iterable`` and move the progress along, from where it is to 100.

        ``total`` is its length where it has none; while that is unknown, only the message moves.
        A wrong or no length is no error: the loop counts.
        """
        length = total if total is not None else _length(iterable)
        begin = self._percent
        self.update_progress(begin, message or None)
        for done, element in enumerate(iterable, start=1):
            yield element
            if length and length > 0:
                share = min(done, length) / length
                self.update_progress(min(100, begin + (100 - begin) * share))
            else:
                self.update_progress(begin, f"{message} {done}".strip())

    @contextmanager
    def item(self, name: Any) -> Iterator[None]:
        """Run one item: an ``Exception`` inside fails this item, not the job."""
        with self.items.item(name):
            yield
        self._attempt.report(self._percent, None, self.items)

    def save_asset(
        self, name: str, content: Content, asset_type: str, content_type: str | None = None
    ) -> Asset:
        """Store ``content`` (bytes, text, path, binary file, iterable of bytes) as an asset.

        An asset of the same name is replaced. Raises ``LeaseLost`` if the attempt is over,
        ``ValueError`` for a name or type that cannot be stored, and what the storage raises.
        """
        return store(self._job, name, content, asset_type, content_type, self._attempt.attach)

    def link_asset(self, name: str, url: str, asset_type: str) -> Asset:
        """Link an http(s) address as an asset. Errors as ``save_asset``."""
        return link(self._job, name, url, asset_type, self._attempt.attach)

    async def asave_asset(
        self, name: str, content: Content, asset_type: str, content_type: str | None = None
    ) -> Asset:
        """``save_asset`` for async handlers."""
        return await sync_to_async(self.save_asset)(name, content, asset_type, content_type)

    async def alink_asset(self, name: str, url: str, asset_type: str) -> Asset:
        """``link_asset`` for async handlers."""
        return await sync_to_async(self.link_asset)(name, url, asset_type)


def _length(iterable: Iterable[Any]) -> int | None:
    try:
        return len(iterable)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001 - a length is a courtesy; too long a range has none either
        return None
