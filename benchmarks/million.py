"""A table with very many jobs: fill it, look at it, go on working beside it. Prints JSON.

Usage, in a variant's environment: ``python -m benchmarks.million load|look|work NUMBER``; ``work``
goes on until its standard input ends.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import select
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import django
from django.db import connection
from django.test.utils import CaptureQueriesContext

USERS = 1000
LOOKS = 5  # at each page; the median counts
#: Of each hundred jobs that have ended.
SHARES = {"completed": 80, "failed": 15, "partial": 5}
SECONDS_APART = 20
YOUNGEST = dt.timedelta(days=31)


def main(task: str, number: int) -> None:
    django.setup()
    print(json.dumps({"load": load, "look": look, "work": work}[task](number)))


def load(count: int) -> dict[str, int]:
    """Make ``count`` jobs that ended long ago; return the rows of the tables."""
    from django.contrib.auth import get_user_model

    from django_jobs.models import Asset, Job, JobTransition
    from django_jobs.testing import make_job
    from tests.mass import multiply

    users = get_user_model().objects
    users.bulk_create([users.model(username=f"user{number}") for number in range(USERS)])
    first = users.order_by("pk").first()
    for status, share in SHARES.items():
        job = make_job(first, status, job_type="noop")
        Asset.objects.create(
            job=job, user=first, name="report", asset_type="report", url="https://e.org/r"
        )
        created = (
            f"now() - interval '{YOUNGEST.days} days' "
            f"- number.n * interval '{SECONDS_APART * 100 / share} seconds'"
        )
        multiply(
            job,
            count * share // 100 - 1,
            user_id=f"{first.pk} + mod(number.n, {USERS})",
            created_at=created,
            started_at=f"{created} + interval '1 second'",
            updated_at=f"{created} + interval '2 seconds'",
            completed_at=f"{created} + interval '2 seconds'",
        )
        long_ago = job.created_at - YOUNGEST
        Job.objects.filter(pk=job.pk).update(created_at=long_ago, completed_at=long_ago)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return {model.__name__: model.objects.count() for model in (Job, JobTransition, Asset)}


def look(_: int) -> dict[str, tuple[float, int]]:
    """Return the milliseconds and queries of what people and workers look at."""
    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django.test import Client

    from django_jobs.execution.claim import claimable

    users = get_user_model().objects
    boss = users.create_superuser("boss")
    somebody = users.order_by("pk")[USERS // 2]
    clients = {name: Client() for name in ("admin", "api")}
    clients["admin"].force_login(boss)
    clients["api"].force_login(somebody)
    job = somebody.django_jobs.order_by("-id").first()
    pages = {
        "API: one's jobs": ("api", "/api/jobs/"),
        "API: one's failed jobs": ("api", "/api/jobs/?status=failed"),
        "API: a job": ("api", f"/api/jobs/{job.pk}/"),
        "admin: list of jobs": ("admin", "/admin/django_jobs/job/"),
        "admin: list, failed": ("admin", "/admin/django_jobs/job/?status__exact=failed"),
        "admin: a job": ("admin", f"/admin/django_jobs/job/{job.pk}/change/"),
    }
    looks: dict[str, Callable[[], Any]] = {
        name: lambda client=clients[who], path=path: _get(client, path)
        for name, (who, path) in pages.items()
    }
    looks["worker: what is due"] = lambda: list(claimable("default")[:1])
    looks["check_jobs"] = lambda: call_command("check_jobs", stdout=io.StringIO())
    return {name: _timed(function) for name, function in looks.items()}


def work(per_second: int) -> dict[str, int]:
    """Order jobs steadily until told to stop; return how many, and how many are COMPLETED."""
    from django.contrib.auth import get_user_model

    from django_jobs.models import Job
    from django_jobs.services import create_job

    user = get_user_model().objects.order_by("pk").first()
    keys = []
    while not select.select([sys.stdin], [], [], 1 / per_second)[0]:
        keys.append(create_job(user, "noop").pk)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        done = sum(
            Job.objects.filter(pk__in=keys[at : at + 1000], status="completed").count()
            for at in range(0, len(keys), 1000)
        )
        if done == len(keys):
            break
        time.sleep(0.2)
    return {"ordered": len(keys), "completed": done}


def _get(client: Any, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 200, (path, response.status_code)


def _timed(function: Callable[[], Any]) -> tuple[float, int]:
    times = []
    for _ in range(LOOKS):
        with CaptureQueriesContext(connection) as queries:
            begin = time.perf_counter()
            function()
            times.append((time.perf_counter() - begin) * 1000)
    return statistics.median(times), len(queries)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
