"""Whether the cluster of this worker process is gone: then nobody would ever end it.

The engine's guard is the parent of its workers. When it is killed they get another parent, and
would wait for ever in a queue that nobody fills any more.
"""

from __future__ import annotations

import logging
import os

logger = logging.getLogger(__name__)

_guard: tuple[int, int] | None = None  # this process, and the guard that is its parent
_is_engaged = False  # with an ordinary task of the engine's, which we let end


def remember_guard(pid: int) -> None:
    """Note that the process ``pid`` is the guard of this worker's cluster."""
    global _guard
    _guard = (os.getpid(), pid) if pid else None


def is_orphan() -> bool:
    """Whether the guard of this process is gone; False if none is known."""
    return _guard is not None and _guard[0] == os.getpid() and os.getppid() != _guard[1]


def engage(is_engaged: bool) -> None:
    """Note whether this process runs an ordinary task."""
    global _is_engaged
    _is_engaged = is_engaged


def leave_if_orphan() -> None:
    """End this process if its cluster is gone and it has nothing to do. Called outside drains."""
    if is_orphan() and not _is_engaged:
        logger.warning("the cluster of this worker is gone: the process ends")
        logging.shutdown()
        os._exit(0)
