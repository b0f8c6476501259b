"""Counting the rows of a list without counting a whole table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from django.conf import settings
from django.core.paginator import Paginator
from django.utils.functional import cached_property

if TYPE_CHECKING:  # generic in the stubs only
    _Paginator: TypeAlias = Paginator[Any]
else:
    _Paginator = Paginator

COUNTED = 10_000  # rows at most; whoever wants more narrows the list


class AtLeast(int):
    """A count that was given up: "10000+" wherever a page shows it."""

    def __str__(self) -> str:
        # Django puts its separators into this text, by position
        mark = "" if settings.USE_THOUSAND_SEPARATOR else "+"
        return f"{int(self)}{mark}"


class BoundedPaginator(_Paginator):
    """Counts ``COUNTED`` rows at most, and pages through no more than that."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        found: int = rows.order_by()[: COUNTED + 1].count()
        return AtLeast(COUNTED) if found > COUNTED else found
