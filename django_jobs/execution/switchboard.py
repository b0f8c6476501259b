"""How the pusher of a cluster and the drains of its workers hear of each other.

A drain that finds nothing due waits inside itself, at the end of a line to its pusher, and not in
the engine's queue: a process that is killed while it waits in that queue dies holding its lock, and
nobody gets anything out of it any more. The kernel closes a line with either process, so who is
there needs no book-keeping. Lines are Unix sockets of Linux; elsewhere drains end when they find
nothing.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import selectors
import socket
import struct
import sys
import threading
import time
import weakref
from collections.abc import Sequence

from django_jobs.execution import orphans

LOOK = b"look"  # to an idle drain: jobs wait
MAKE_ROOM = b"room"  # to an idle drain: end, an ordinary task needs the worker
STOP = b"stop"  # to all: the cluster stops
IDLE = b"idle"  # from a drain: nothing is due
BUSY = b"busy"  # from a drain: it looks at the table by itself
LONGEST_MESSAGE = 64  # bytes
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
                _send(line, STOP)

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
        readable = _readable([*ours, *also], seconds)
        with self._lock:
            for found in readable:
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
            if not _is_of_this_user(line):
                line.close()
                return
            line.setblocking(False)
            self._lines[line] = _Seat()

    def _hear(self, line: socket.socket) -> None:
        seat = self._lines[line]
        while (message := _receive(line)) is not None:
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
            _send(line, MAKE_ROOM)

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
                _send(line, message)
                count -= 1


class _Seat:
    is_idle = False


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
            if not _is_of_this_user(line):
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
        _send(self._line, IDLE)
        if not self._must_look:
            _readable([self._line], seconds)
        if self.is_over:
            return False
        if not self._must_look:
            _send(self._line, BUSY)
        self._must_look = False
        return True

    def close(self) -> None:
        self._line.close()

    def _hear(self) -> None:
        with self._lock:
            while not self._is_cut and (message := _receive(self._line)) is not None:
                self._must_look = self._must_look or message == LOOK
                if message == STOP:
                    self._stops_since = time.monotonic()
                self._is_cut = message in (b"", STOP, MAKE_ROOM)
            if self._stops_since is None and orphans.is_orphan():
                self._stops_since = time.monotonic()


_open_lines: weakref.WeakSet[socket.socket] = weakref.WeakSet()


@functools.cache
def _hang_up_in_children() -> None:
    """A process that a handler forks is no drain: it must not hold the line of one that died."""
    os.register_at_fork(after_in_child=_hang_up)


def _hang_up() -> None:
    for line in _open_lines:
        line.close()


def _listening_socket(seats: int) -> socket.socket | None:
    if sys.platform != "linux":
        return None
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.bind(f"\0django_jobs-{os.getpid()}-{secrets.token_hex(8)}")  # a name, not a file
    server.listen(2 * seats + 8)
    server.setblocking(False)
    return server


def _readable(files: Sequence[int | socket.socket], seconds: float) -> list[int | socket.socket]:
    """Return what can be read, after waiting for it; a process may have thousands of files open."""
    if not files:
        time.sleep(max(0.0, seconds))
        return []
    with selectors.DefaultSelector() as selector:
        for file in files:
            selector.register(file, selectors.EVENT_READ, file)
        return [key.data for key, _ in selector.select(max(0.0, seconds))]


def _is_of_this_user(line: socket.socket) -> bool:
    """Names of sockets are seen by everybody on the machine: ask the kernel who is there."""
    credentials = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", credentials)
    return bool(user == os.geteuid())


def _send(line: socket.socket, message: bytes) -> None:
    with contextlib.suppress(OSError):  # the other end is gone: reading will tell
        line.send(message)


def _receive(line: socket.socket) -> bytes | None:
    """Return the next message, ``b""`` if the other end is gone, ``None`` if there is none."""
    try:
        return line.recv(LONGEST_MESSAGE)
    except BlockingIOError:
        return None
    except OSError:
        return b""
