"""Parts of a file (RFC 9110, section 14): one at a time; who asks for several gets the whole."""

from __future__ import annotations

import re
from typing import Any

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


class RangeNotSatisfiable(Exception):
    """The range begins behind the end of the file."""


def part_of(header: str, size: int) -> tuple[int, int] | None:
    """Return offset and length that a Range header wants of a file of ``size`` bytes.

    ``None`` if it wants the whole, or something that need not be understood.
    """
    match = _RANGE.fullmatch(header.strip().replace(" ", ""))
    if match is None or not (match[1] or match[2]):
        return None
    if not match[1]:  # the last so many
        begin, end = max(0, size - int(match[2])), size
        is_there = int(match[2]) > 0 and size > 0
    else:
        begin = int(match[1])
        end = min(int(match[2]) + 1, size) if match[2] else size
        is_there = begin < size
    if match[1] and match[2] and int(match[2]) < begin:
        return None
    if not is_there:
        raise RangeNotSatisfiable
    return begin, end - begin


class Part:
    """The next ``length`` bytes of an open file, as ``FileResponse`` reads one."""

    def __init__(self, file: Any, length: int) -> None:
        self._file = file
        self._left = length

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        chunk: bytes = self._file.read(wanted) if wanted else b""
        self._left -= len(chunk)
        return chunk

    def close(self) -> None:
        self._file.close()
