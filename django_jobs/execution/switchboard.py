"""The pusher's side of the lines to its drains; see ``execution.sockets``."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Sequence

from django_jobs.execution.sockets import (
    IDLE,
    LOOK,
    MAKE_ROOM,
    STOP,
    is_of_this_user,
    readable,
    receive,
    send,
)

LOST_AFTER = 5.0  # seconds until a word that no worker answered is given again; doubled each time


class Switchboard:
    """The pusher's side: which drains are there, which of them wait, what they must be told.

    ``seats`` is how many workers there are: each should be in a drain, or find the word for one in
    the engine's queue as soon as it is free. Thread-safe.
    """

    def __init__(self, seats: int) -> None:
        self._seats = seats
        self._lock = threading.RLock()
        self._vacancy = threading.Event()
        self._server = _listening_socket(seats)
        self._lines: dict[socket.socket, _Seat] = {}
        self._number = 0  # of the last thing that was put into the engine's queue
        self._words: dict[int, float] = {}  # given and not answered: number -> lost at
        self._patience = LOST_AFTER
        self._ordinary: list[int] = []  # numbers of tasks that may still wait in that queue

    @property
    def address(self) -> str:
        """Where drains call; empty where there are no lines."""
        return "" if self._server is None else self._server.getsockname()[1:].decode()

    def numbers_of_words(self) -> list[int]:
        """Return a number for each word "drain" that is to be put into the engine's queue now."""
        if self._server is None:
            return []
        with self._lock:
            now = time.monotonic()
            if lost := [number for number, at in self._words.items() if at <= now]:
                self._patience *= 2
                for number in lost:
                    del self._words[number]
            missing = self._seats - len(self._lines) - len(self._words)
            numbers = [self._next_number() for _ in range(missing)]
            self._words.update(dict.fromkeys(numbers, now + self._patience))
            return numbers

    def wait_for_vacancy(self, seconds: float) -> None:
        """Wait until a worker has left its drain, ``seconds`` at most."""
        self._vacancy.wait(seconds)
        self._vacancy.clear()

    def ordinary_tasks(self, count: int) -> None:
        """Note that ``count`` ordinary tasks go into the engine's queue: workers must come."""
        with self._lock:
            self._ordinary += [self._next_number() for _ in range(count)]
            self._tell_idle(MAKE_ROOM, count)

    def idle(self) -> int:
        """Return how many drains wait."""
        with self._lock:
            return sum(seat.is_idle for seat in self._lines.values())

    def wake(self, count: int) -> None:
        """Have ``count`` of the drains that wait look at the table."""
        with self._lock:
            self._tell_idle(LOOK, count)

    def stop(self) -> None:
        """Tell all drains that the cluster stops."""
        with self._lock:
            for line in self._lines:
                send(line, STOP)

    def close(self) -> None:
        """Hang up: as if this process had ended."""
        with self._lock:
            for line in self._lines:
                line.close()
            self._lines.clear()
            if self._server is not None:
                self._server.close()

    def serve(self, seconds: float, also: Sequence[int] = ()) -> None:
        """Hear what drains say, until somebody does, for ``seconds`` at most.

        Returns also when one of the file descriptors ``also`` can be read.
        """
        with self._lock:
            ours = [] if self._server is None else [self._server, *self._lines]
        heard = readable([*ours, *also], seconds)
        with self._lock:
            for found in heard:
                if found is self._server:
                    self._accept()
                elif isinstance(found, socket.socket):
                    self._hear(found)

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError):
            line, _ = self._server.accept()  # type: ignore[union-attr]
            if not is_of_this_user(line):
                line.close()
                return
            line.setblocking(False)
            self._lines[line] = _Seat()

    def _hear(self, line: socket.socket) -> None:
        seat = self._lines[line]
        while (message := receive(line)) is not None:
            if message == b"":
                del self._lines[line]
                line.close()
                self._vacancy.set()
                return
            if message.isdigit():
                self._begin(int(message))
            seat.is_idle = message == IDLE
        if seat.is_idle and self._ordinary:
            seat.is_idle = False
            send(line, MAKE_ROOM)

    def _begin(self, number: int) -> None:
        """What was put into the queue before this word has been taken out of it."""
        if self._words.pop(number, None) is not None:
            self._patience = LOST_AFTER
        self._ordinary = [task for task in self._ordinary if task > number]

    def _tell_idle(self, message: bytes, count: int) -> None:
        for line, seat in self._lines.items():
            if count <= 0:
                return
            if seat.is_idle:
                seat.is_idle = False
                send(line, message)
                count -= 1


class _Seat:
    is_idle = False


def _listening_socket(seats: int) -> socket.socket | None:
    if sys.platform != "linux":
        return None
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.bind(f"\0django_jobs-{os.getpid()}-{secrets.token_hex(8)}")  # a name, not a file
    server.listen(2 * seats + 8)
    server.setblocking(False)
    return server
