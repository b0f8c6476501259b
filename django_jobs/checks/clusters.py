"""Checks of ``Q_CLUSTER``: is there a cluster that takes jobs, and does it do so well?

Nothing of django-q2 is imported here unless the settings name it: classes are compared by path.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core import checks
from django.utils.module_loading import import_string

from django_jobs.checks.settings import runs_workers

JOB_BROKER = "django_jobs.broker.JobBroker"

Cluster = dict[str, Any]


def check_clusters(**_: Any) -> list[checks.CheckMessage]:
    if not runs_workers():
        return []
    if not apps.is_installed("django_q"):
        return [
            checks.Error(
                "django_q is not in INSTALLED_APPS, but DJANGO_JOBS['ENGINE'] is 'django_q'.",
                hint='Add "django_q", or set ENGINE to "immediate" for jobs without workers.',
                id="django_jobs.E008",
            )
        ]
    broken = list(_broken_brokers())
    ours = job_clusters()
    if not ours and not broken:
        broken = [_nobody_takes_jobs()]
    advice = [message for name, cluster in ours.items() for message in _advice(name, cluster)]
    return [*broken, *advice]


def job_clusters() -> dict[str, Cluster]:
    """Return the settings of the clusters that take jobs, by name."""
    return {name: cluster for name, cluster in _clusters().items() if _takes_jobs(cluster)}


def _clusters() -> dict[str, Cluster]:
    """Return the settings of all clusters as django-q2 puts them together."""
    main = getattr(settings, "Q_CLUSTER", None) or {}
    others = main.get("ALT_CLUSTERS") or {}
    return {
        main.get("name", "default"): main,
        **{name: {**main, **other} for name, other in others.items() if isinstance(other, dict)},
    }


def _takes_jobs(cluster: Cluster) -> bool:
    try:
        broker = import_string(cluster.get("broker_class") or "")
    except Exception:  # noqa: BLE001 - importing a module of the host may raise anything
        return False
    return any(
        f"{c.__module__}.{c.__qualname__}" == JOB_BROKER for c in getattr(broker, "__mro__", ())
    )


def _broken_brokers() -> Iterator[checks.CheckMessage]:
    for name, cluster in _clusters().items():
        path = cluster.get("broker_class")
        if not path:
            continue
        try:
            import_string(path)
        except Exception as error:  # noqa: BLE001 - as above
            yield checks.Error(
                f"The broker class {path!r} of the cluster {name!r} cannot be imported: {error}.",
                hint=f'For jobs it is "{JOB_BROKER}" or a subclass of it.',
                id="django_jobs.E009",
            )


def _nobody_takes_jobs() -> checks.CheckMessage:
    return checks.Error(
        "No cluster in Q_CLUSTER takes jobs from the table: they would wait for ever.",
        hint=f'Set Q_CLUSTER["broker_class"] to "{JOB_BROKER}". If your cluster runs on Redis, '
        'SQS or another broker, leave it and add one: Q_CLUSTER["ALT_CLUSTERS"] = {"jobs": '
        f'{{"broker_class": "{JOB_BROKER}", "orm": "default"}}}}, started with '
        "Q_CLUSTER_NAME=jobs manage.py jobworker.",
        id="django_jobs.E010",
    )


def _advice(name: str, cluster: Cluster) -> Iterator[checks.CheckMessage]:
    if cluster.get("sync"):
        yield checks.Warning(
            f"The cluster {name!r} has sync on.",
            hint="Its processes would share one connection to the database, and async_task() runs "
            'in the caller. For tests set DJANGO_JOBS["ENGINE"] to "immediate" instead.',
            id="django_jobs.W003",
        )
    workers = int(cluster.get("workers") or os.cpu_count() or 4)
    limit = int(cluster.get("queue_limit", workers**2))
    if limit > workers:
        yield checks.Warning(
            f"The cluster {name!r} has a queue_limit of {limit} for {workers} workers.",
            hint="What waits in the queue inside the cluster holds up its pusher, and keeps a stop "
            f'waiting. Set "queue_limit" to {workers} (the default is the square of workers).',
            id="django_jobs.W004",
        )
