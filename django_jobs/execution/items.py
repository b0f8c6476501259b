"""The items of a job: each one may fail without failing the job."""

from __future__ import annotations

import logging
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from django.utils.translation import ngettext

from django_jobs.exceptions import JobFailed
from django_jobs.services.failed_items import IN_ROW, FailedItem, as_line, failed_item
from django_jobs.values import clean_text

SHOWN_ERRORS = 5  # in the error message of the job
MAX_SHOWN_NAME_CHARS = 120
IN_MEMORY = 1 << 20  # bytes; a longer list waits on disk
logger = logging.getLogger(__name__)


class Items:
    """Counts of items, and the failed ones: the first in memory, all in a list. Safe for threads.

    The memory that it takes has a bound, however many fail.
    """

    def __init__(self) -> None:
        self.succeeded = 0
        self.failed = 0
        self.first_failed: list[FailedItem] = []
        self._list: IO[bytes] | None = None
        self._is_list_whole = True
        self._lock = threading.Lock()

    @property
    def total(self) -> int:
        return self.succeeded + self.failed

    @contextmanager
    def item(self, name: Any) -> Iterator[None]:
        """Run one item: an ``Exception`` fails the item, all else (and ``JobFailed``) the job."""
        try:
            yield
        except JobFailed:
            raise
        except Exception as error:  # noqa: BLE001 - the handler's own code, by contract
            self._note_failure(failed_item(name, error))
        else:
            with self._lock:
                self.succeeded += 1

    def summary(self) -> str:
        """Return how many failed and the first reasons, one a line."""
        headline = ngettext(
            "%(failed)d of %(total)d item failed.",
            "%(failed)d of %(total)d items failed.",
            self.total,
        ) % {"failed": self.failed, "total": self.total}
        shown = self.first_failed[:SHOWN_ERRORS]
        lines = [headline, *map(_in_words, shown)]
        if more := self.failed - len(shown):
            lines.append(ngettext("and %d more", "and %d more", more) % more)
        return "\n".join(lines)

    @contextmanager
    def whole_list(self) -> Iterator[IO[bytes] | None]:
        """Give the list of all failed items, if they are too many for the row; then forget it."""
        with self._lock:
            found, self._list = self._list, None
            is_whole, self._is_list_whole = self._is_list_whole, False
        if found is None:
            yield None
            return
        with found:
            found.seek(0)
            yield found if is_whole else None

    def _note_failure(self, item: FailedItem) -> None:
        with self._lock:
            self.failed += 1
            if len(self.first_failed) < IN_ROW:
                self.first_failed.append(item)
            elif self._is_list_whole:
                self._add_to_list(item)

    def _add_to_list(self, item: FailedItem) -> None:
        try:
            if self._list is None:
                self._list = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115
                self._list.writelines(map(as_line, self.first_failed))
            self._list.write(as_line(item))
        except OSError:  # the disk is full, say: no fault of the item after
            logger.exception("the list of failed items cannot be kept")
            self._is_list_whole = False


def _in_words(item: FailedItem) -> str:
    return f"{clean_text(item['name'], MAX_SHOWN_NAME_CHARS)}: {item['error']}"
