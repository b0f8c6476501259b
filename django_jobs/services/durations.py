"""Durations as people say them."""

from __future__ import annotations


def in_words(seconds: float | None) -> str:
    """Return ``2 s``, ``5 min``, ``24 h``; ``no limit`` for ``None``."""
    if seconds is None:
        return "no limit"
    seconds = round(seconds, 1)
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"
