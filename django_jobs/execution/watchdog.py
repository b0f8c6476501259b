"""The last resort: ends this process even while C code holds the interpreter's lock.

``faulthandler`` waits in a thread of C's own, which needs no lock. There is one timer per process;
each call replaces the former.
"""

from __future__ import annotations

import faulthandler
import sys

_is_armed = False


def arm(seconds: float) -> None:
    """End the process in ``seconds`` unless armed anew, with all stacks on stderr."""
    global _is_armed
    faulthandler.dump_traceback_later(
        max(seconds, 0.1), exit=True, file=sys.__stderr__ or sys.stderr
    )
    _is_armed = True


def disarm() -> None:
    global _is_armed
    if _is_armed:
        faulthandler.cancel_dump_traceback_later()
        _is_armed = False
