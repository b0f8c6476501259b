"""The items of a job: each one may fail without failing the job."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.utils.translation import ngettext

from django_jobs.exceptions import JobFailed
from django_jobs.values import clean_error, clean_text, describe_exception

SHOWN_ERRORS = 5  # in the error message of the job
MAX_NAME_CHARS = 120
MAX_REASON_CHARS = 300


class Items:
    """Counts of items, and the first errors. Safe for several threads."""

    def __init__(self) -> None:
        self.succeeded = 0
        self.failed = 0
        self.errors: list[tuple[str, str]] = []
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
            self._note_failure(name, error)
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
        more = self.failed - len(self.errors)
        lines = [headline, *(f"{name}: {reason}" for name, reason in self.errors)]
        if more:
            lines.append(ngettext("and %d more", "and %d more", more) % more)
        return "\n".join(lines)

    def _note_failure(self, name: Any, error: Exception) -> None:
        is_shown = len(self.errors) < SHOWN_ERRORS
        shown = _described(name, error) if is_shown else None
        with self._lock:
            self.failed += 1
            if shown and len(self.errors) < SHOWN_ERRORS:
                self.errors.append(shown)


def _described(name: Any, error: Exception) -> tuple[str, str]:
    try:
        text = str(name)
    except Exception:  # noqa: BLE001 - user code: its error must not hide the item's
        text = type(name).__name__
    reason = clean_error(describe_exception(error))
    return clean_text(text, MAX_NAME_CHARS), clean_text(reason, MAX_REASON_CHARS)
