"""Names and numbers of attempts: who may hold one, and how long to wait before the next."""

from __future__ import annotations

import datetime as dt
import random
import secrets

from django_jobs.conf import conf

EXTERNAL = "external:"  # what the name of a driver that is not one of our workers begins with
NOBODY = "nobody"  # the worker of a terminal job that ended while it waited
NEVER = dt.timedelta(days=36_500)  # the lease of a driver whose job type has no timeout
LONGEST_BACKOFF = 3600.0  # seconds


def new_external_worker() -> str:
    """Return a name for the driver of one attempt, unlike any other."""
    return EXTERNAL + secrets.token_hex(8)


def is_ours(worker: str) -> bool:
    """Say whether ``worker`` is one of our worker processes (not empty, not an outside driver)."""
    return bool(worker) and worker != NOBODY and not worker.startswith(EXTERNAL)


def backoff(retry_delay: float, attempt: int) -> float:
    """Return the seconds to wait after ``attempt``: doubled each time, ± 20 %, at most an hour."""
    wanted = retry_delay * 2.0 ** min(attempt - 1, 32) * random.uniform(0.8, 1.2)  # noqa: S311
    return max(conf.least_backoff, min(wanted, LONGEST_BACKOFF))
