"""Being the main process of a cluster, in a child of the supervisor."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import threading
from typing import NoReturn

from django_q.cluster import Cluster

logger = logging.getLogger(__name__)
SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}
LOOK_EVERY = 0.1  # seconds
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # prctl(2)


def be_cluster(supervisor: int) -> NoReturn:
    """In the child: be the main process of a cluster until it ends; never return."""
    exit_code = 1
    try:
        os.setsid()
        _end_with_parent(supervisor)
        exit_code = _run_cluster()
    except BaseException:
        logger.exception("the cluster could not begin")
    finally:
        logging.shutdown()
        os._exit(exit_code)


def _run_cluster() -> int:
    cluster = Cluster()
    is_told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: is_told.set())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    cluster.start()
    while cluster.sentinel.is_alive():
        if is_told.is_set():
            is_told.clear()
            # in a thread: it hangs when the guard was killed while it waited for this very event
            threading.Thread(target=cluster.stop_event.set, daemon=True).start()
        cluster.sentinel.join(LOOK_EVERY)
    return int(cluster.sentinel.exitcode or 0)


def _end_with_parent(parent: int) -> None:
    """Have the kernel send SIGTERM to this process when its parent ends, however it does."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it was faster
        os._exit(1)


def adopt_orphans() -> None:
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
