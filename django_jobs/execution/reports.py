"""What the handler of an attempt reported last."""

from __future__ import annotations

import threading
from typing import Any

from django_jobs.execution.items import Items
from django_jobs.models import Job


class Reports:
    """The furthest progress, latest message and counts of one attempt. Safe for several threads."""

    def __init__(self) -> None:
        self.percent = 0
        self.message = ""
        self.items = Items()
        self._lock = threading.Lock()

    def remember(self, percent: int, message: str | None, items: Items) -> None:
        with self._lock:  # of two threads, the one that is less far may come last
            self.percent, self.items = max(self.percent, percent), items
            if message is not None:
                self.message = message

    def columns(self) -> dict[str, Any]:
        """What goes with the percentage, by the names of the columns."""
        return {
            "progress_message": self.message,
            "items_total": self.items.total,
            "items_succeeded": self.items.succeeded,
            "items_failed": self.items.failed,
        }

    def apply(self, job: Job) -> None:
        """Set it all on ``job`` in memory, so that the outcome carries it."""
        failed_items = list(self.items.first_failed)
        job.keep_reports(progress=self.percent, failed_items=failed_items, **self.columns())
