"""A drain's side of the line to its pusher; see ``execution.sockets``."""

from __future__ import annotations

import functools
import os
import socket
import threading
import time
import weakref

from django_jobs.execution import orphans
from django_jobs.execution.sockets import (
    BUSY,
    IDLE,
    LOOK,
    MAKE_ROOM,
    STOP,
    is_of_this_user,
    readable,
    receive,
    send,
)

_open_lines: weakref.WeakSet[socket.socket] = weakref.WeakSet()


class Line:
    """A drain's side. Used by the main thread and by the keeper."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._lock = threading.Lock()
        self._is_cut = False
        self._stops_since: float | None = None
        self._must_look = False

    @classmethod
    def call(cls, address: str, number: int) -> Line | None:
        """Call the pusher that gave word ``number``; ``None`` if it is gone."""
        line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            line.connect(f"\0{address}")
            if not is_of_this_user(line):
                raise ConnectionRefusedError
            line.send(str(number).encode())
        except OSError:
            line.close()
            return None
        line.setblocking(False)
        _hang_up_in_children()
        _open_lines.add(line)
        return cls(line)

    @property
    def is_over(self) -> bool:
        """Whether the drain must end: it is told so, or its pusher is gone."""
        self._hear()
        return self._is_cut

    @property
    def stops_since(self) -> float | None:
        """The ``time.monotonic()`` since which the cluster is known to stop, or be gone."""
        self._hear()
        return self._stops_since

    def wait(self, seconds: float) -> bool:
        """Wait until jobs are due, ``seconds`` at most; False if the drain must end instead."""
        send(self._line, IDLE)
        if not self._must_look:
            readable([self._line], seconds)
        if self.is_over:
            return False
        if not self._must_look:
            send(self._line, BUSY)
        self._must_look = False
        return True

    def close(self) -> None:
        self._line.close()

    def _hear(self) -> None:
        with self._lock:
            while not self._is_cut and (message := receive(self._line)) is not None:
                self._must_look = self._must_look or message == LOOK
                if message == STOP:
                    self._stops_since = time.monotonic()
                self._is_cut = message in (b"", STOP, MAKE_ROOM)
            if self._stops_since is None and orphans.is_orphan():
                self._stops_since = time.monotonic()


@functools.cache
def _hang_up_in_children() -> None:
    """A process that a handler forks is no drain: it must not hold the line of one that died."""
    os.register_at_fork(after_in_child=_hang_up)


def _hang_up() -> None:
    for line in _open_lines:
        line.close()
