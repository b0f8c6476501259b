"""Pages by cursor, on the one unique key: no gaps, repeats or loops.

Imports nothing of the views, so that a project can name these classes in its settings.
"""

from __future__ import annotations

import uuid
from typing import Any

from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination


class NewestFirst(CursorPagination):
    """Newest first; ``?page_size=`` up to 100."""

    ordering = "-id"  # keys sort by age
    page_size = 20
    page_size_query_param = "page_size"
    max_page_size = 100

    def decode_cursor(self, request: Any) -> Any:
        """Return the cursor of ``request``; ``NotFound`` if it is none that we have made."""
        if not request.query_params.get(self.cursor_query_param):
            return None
        cursor = super().decode_cursor(request)
        if cursor is None or cursor.offset or not _is_key(cursor.position):
            raise NotFound(self.invalid_cursor_message)
        return cursor


class OldestFirst(NewestFirst):
    """Oldest first, for what tells a story."""

    ordering = "id"


def _is_key(position: Any) -> bool:
    try:
        uuid.UUID(position)
    except (TypeError, ValueError):
        return False
    return True
