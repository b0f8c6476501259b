"""Helpers for tests of a host project (and of this one)."""

from __future__ import annotations

import itertools
from typing import Any

from django_jobs.execution.immediate import run_job
from django_jobs.models import FailureCode, Job, JobStatus, clock
from django_jobs.models.attempts import is_ours


def run_due_jobs(*, using: str | None = None, limit: int = 1000) -> list[Job]:
    """Run what is due now, here, in the order of claims, until nothing is; return the jobs, fresh.

    Jobs that the handlers order are run too. At most ``limit`` jobs.
    """
    alias = clock.alias_for_write(using)
    done: list[Job] = []
    while len(done) < limit:
        job = Job.objects.using(alias).due().exclude(pk__in=[j.pk for j in done]).first()
        if job is None:
            break
        run_job(job.pk, alias)
        done.append(Job.objects.using(alias).get(pk=job.pk))
    return done


_numbers = itertools.count(1)


def make_job(user: Any, status: str = JobStatus.QUEUED, **fields: Any) -> Job:
    """Return a saved job in any state, taken there by legal steps; ``fields`` as ``Job``'s.

    ``result``, ``error_message`` and ``failure_code`` go with the terminal states they belong to;
    ``worker`` with all but QUEUED. The type need not be declared.
    """
    ending = {
        name: fields.pop(name)
        for name in ("result", "error_message", "failure_code", "progress", "worker")
        if name in fields
    }
    status = JobStatus(status)
    job = Job(user=user, **{"job_type": f"type-{next(_numbers)}", **fields})
    job.save()
    if status == JobStatus.QUEUED:
        return job
    worker = ending.get("worker")
    job.start(worker=worker, lease=30 if worker and is_ours(worker) else 0)
    if "progress" in ending:
        job.report(ending["progress"])
    message = ending.get("error_message", "")
    if status == JobStatus.COMPLETED:
        job.complete(ending.get("result"))
    elif status == JobStatus.PARTIAL:
        job.complete_partially(ending.get("result"), message)
    elif status == JobStatus.FAILED:
        job.fail(message, ending.get("failure_code", FailureCode.HANDLER_ERROR))
    job.save()
    return job
