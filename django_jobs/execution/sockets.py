"""How the pusher of a cluster and the drains of its workers hear of each other.

A drain that finds nothing due waits inside itself, at the end of a line to its pusher, and not in
the engine's queue: a process that is killed while it waits in that queue dies holding its lock, and
nobody gets anything out of it any more. The kernel closes a line with either process, so who is
there needs no book-keeping. Lines are Unix sockets of Linux; elsewhere drains end when they find
nothing.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import struct
import time
from collections.abc import Sequence

LOOK = b"look"  # to an idle drain: jobs wait
MAKE_ROOM = b"room"  # to an idle drain: end, an ordinary task needs the worker
STOP = b"stop"  # to all: the cluster stops
IDLE = b"idle"  # from a drain: nothing is due
BUSY = b"busy"  # from a drain: it looks at the table by itself
LONGEST_MESSAGE = 64  # bytes


def readable(files: Sequence[int | socket.socket], seconds: float) -> list[int | socket.socket]:
    """Return what can be read, after waiting for it; a process may have thousands of files open."""
    if not files:
        time.sleep(max(0.0, seconds))
        return []
    with selectors.DefaultSelector() as selector:
        for file in files:
            selector.register(file, selectors.EVENT_READ, file)
        return [key.data for key, _ in selector.select(max(0.0, seconds))]


def is_of_this_user(line: socket.socket) -> bool:
    """Names of sockets are seen by everybody on the machine: ask the kernel who is there."""
    credentials = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", credentials)
    return bool(user == os.geteuid())


def send(line: socket.socket, message: bytes) -> None:
    with contextlib.suppress(OSError):  # the other end is gone: reading will tell
        line.send(message)


def receive(line: socket.socket) -> bytes | None:
    """Return the next message, ``b""`` if the other end is gone, ``None`` if there is none."""
    try:
        return line.recv(LONGEST_MESSAGE)
    except BlockingIOError:
        return None
    except OSError:
        return b""
