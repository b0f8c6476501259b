"""What a host project does: order work and look for its outcome. Prints measurements as JSON.

Usage, in a variant's environment:
``python -m benchmarks.driver create|idle|kill|kill-idle|kill-guard|kill-main COUNT``.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import django
import psutil
from django.conf import settings
from django.db import connection

PATIENCE = 120  # seconds for anything


def main(task: str, count: int) -> None:
    django.setup()
    order = _order_job() if settings.VARIANT["is_ours"] else _order_task()
    tasks = {
        "create": create,
        "idle": idle,
        "kill": kill,
        "kill-idle": kill_idle,
        "kill-guard": partial(kill_idle, generation=1),
        "kill-main": partial(kill_idle, generation=2),
    }
    print(json.dumps(tasks[task](order, count)))


def create(order: Callable[..., Any], count: int) -> float:
    """Order ``count`` pieces of work, one after the other; return the seconds it took."""
    order()  # connects
    begin = time.perf_counter()
    for _ in range(count - 1):
        order()
    return (time.perf_counter() - begin) * count / (count - 1)


def idle(order: Callable[..., Any], count: int) -> list[float]:
    """Order work while nothing else is to be done; return the seconds to the outcome of each."""
    waits = []
    for _ in range(count):
        time.sleep(random.uniform(0.1, 0.4))  # not in step with any poll
        begin = time.perf_counter()
        reference = order()
        _wait_until(lambda found=reference: _is_done(found), every=0.001)
        waits.append(time.perf_counter() - begin)
    return waits


def kill(order: Callable[..., Any], count: int) -> list[float]:
    """Kill busy workers; return the seconds from SIGKILL to the verdict in the row of each."""
    waits = []
    for _ in range(count):
        job_id = order("sleep")
        _wait_until(lambda found=job_id: _row(found)[1], every=0.02)
        time.sleep(random.uniform(1.0, 3.0))
        pid = int(_row(job_id)[1].split("/")[2])
        begin = time.perf_counter()
        os.kill(pid, signal.SIGKILL)
        _wait_until(lambda found=job_id: _row(found)[0] == "failed", every=0.005)
        waits.append(time.perf_counter() - begin)
        assert _row(job_id)[2] == "worker_lost"
    return waits


def kill_idle(order: Callable[..., Any], count: int, generation: int = 0) -> list[float]:
    """Kill idle workers; return the seconds from SIGKILL to the end of the next job of each.

    With ``generation`` 1 the worker's parent is killed instead, with 2 the parent of that.
    """
    waits = []
    for _ in range(count):
        victim = _wait_until(lambda: _idle_victim(order, generation), every=0.005)
        begin = time.perf_counter()
        os.kill(victim, signal.SIGKILL)
        following = order()
        _wait_until(lambda found=following: _is_done(found), every=0.005)
        waits.append(time.perf_counter() - begin)
    return waits


def _idle_victim(order: Callable[..., Any], generation: int) -> int:
    """Return a process of a whole cluster whose worker is idle again; 0 to be asked again.

    The worker of a killed guard may have run the job: it ends soon, and has no cluster above it.
    """
    job_id = order()
    _wait_until(lambda: _is_done(job_id), every=0.005)
    time.sleep(random.uniform(0.3, 1.0))
    try:
        worker = psutil.Process(int(_row(job_id)[1].split("/")[2]))
        family = [worker, *worker.parents()]
        is_whole = all(
            each.cmdline() == worker.cmdline() != [] for each in family[: generation + 1]
        )
    except psutil.NoSuchProcess:
        return 0
    return family[-1].pid if is_whole else 0


def _order_job() -> Callable[..., Any]:
    from django.contrib.auth import get_user_model

    from django_jobs.services import create_job

    user, _ = get_user_model().objects.get_or_create(username="bench")
    return lambda job_type="noop": create_job(user, job_type).pk


def _order_task() -> Callable[..., Any]:
    from django_q.tasks import async_task

    return lambda: async_task("benchmarks.tasks.noop")


def _row(job_id: Any) -> Any:
    """Return status, worker and failure code of a job."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT status, worker, failure_code FROM django_jobs_job WHERE id = %s", [_key(job_id)]
        )
        return cursor.fetchone()


def _is_done(reference: Any) -> bool:
    if settings.VARIANT["is_ours"]:
        return bool(_row(reference)[0] == "completed")
    with connection.cursor() as cursor:
        cursor.execute("SELECT success FROM django_q_task WHERE id = %s", [reference])
        return cursor.fetchone() == (True,)


def _key(job_id: Any) -> Any:
    return job_id if connection.vendor == "postgresql" else job_id.hex


def _wait_until(condition: Callable[[], Any], *, every: float) -> Any:
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        if time.monotonic() > end:
            sys.exit(f"It did not happen within {PATIENCE} s.")
        time.sleep(every)
    return value


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
