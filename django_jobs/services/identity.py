"""Who this worker process is, and whether another one on this machine is certainly dead.

A name is ``host/machine/pid/start/random``: the machine is the boot and the pid namespace, the
start is the process's start time in clock ticks since boot. Host names and pids recur; this
does not.
"""

from __future__ import annotations

import functools
import hashlib
import os
import secrets
import socket
from pathlib import Path


def worker_name() -> str:
    """Return the name of this process as a worker; another one after a fork."""
    return _name_of(os.getpid())


def is_certainly_dead(worker: str) -> bool:
    """Say whether ``worker`` ran on this machine and its process is gone. False means nothing."""
    parts = worker.split("/")
    if len(parts) != 5 or parts[1] != machine() or not parts[1]:
        return False
    _, _, pid, start, _ = parts
    return pid.isdecimal() and start.isdecimal() and _start_time(int(pid)) != int(start)


def machine_prefix() -> str:
    """Return what the names of all workers on this machine begin with; empty if unknown."""
    return f"{_host()}/{machine()}/" if machine() else ""


@functools.cache
def machine() -> str:
    """Return a name for this boot and pid namespace; empty where the system does not tell."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""
    return hashlib.sha256(f"{boot} {namespace}".encode()).hexdigest()[:16]


def _host() -> str:
    return socket.gethostname().replace("/", "_")[:60] or "host"


@functools.cache
def _name_of(pid: int) -> str:
    return f"{_host()}/{machine()}/{pid}/{_start_time(pid) or 0}/{secrets.token_hex(4)}"


def parent_of(pid: int) -> int | None:
    """Return the parent of a process; ``None`` if that is gone or the system does not tell."""
    fields = _stat(pid)
    return int(fields[1]) if fields else None


def _start_time(pid: int) -> int | None:
    """Return the start of a process in clock ticks since boot; ``None`` if it is gone."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def _stat(pid: int) -> list[str]:
    """Return the fields of proc(5) from the third on: state, parent, …; empty if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    fields = stat.rpartition(")")[2].split()
    return [] if fields[0] in "ZX" else fields
