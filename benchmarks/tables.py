"""Numbers in columns."""

from __future__ import annotations

from collections.abc import Sequence


def print_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = [headings, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(headings))]
    print(f"\n{title}")
    for number, row in enumerate(table):
        first, *others = zip(row, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
        print("  ".join(cells).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))
