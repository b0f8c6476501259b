"""From one job to the next: the outcome of A and the claim of B in one commit."""

from __future__ import annotations

import logging

from django.db import Error, connections, transaction

from django_jobs.exceptions import LeaseLost
from django_jobs.execution.claim import Claim
from django_jobs.execution.finish import finish, finish_applied
from django_jobs.execution.outcome import Outcome
from django_jobs.models import Job, persistence
from django_jobs.signals import job_finished, job_transitioned
from django_jobs.values import describe_exception

logger = logging.getLogger(__name__)
PATIENCE = 300.0  # seconds for an outcome while the database is away


def finish_alone(job: Job, outcome: Outcome, alias: str) -> None:
    """Write the outcome. That somebody else decided is a normal end, and logged."""
    try:
        finish(job, outcome, alias, patience=PATIENCE)
    except LeaseLost as error:
        logger.warning("job %s (%s): its outcome is dropped: %s", job.pk, job.job_type, error)


def finish_and_claim(job: Job, outcome: Outcome, alias: str, worker: str) -> Job | None:
    """Write the outcome and take the next job in one transaction; return the next job, if any.

    After any error the outcome is written again alone (its receipt tells whether it was), and the
    next job is ours only if its own receipt is there: the claim is never tried again here.
    """
    outcome.apply(job)
    claim = Claim(alias, worker)
    try:
        with transaction.atomic(using=alias):
            matched = persistence.write(job, alias, guard=persistence.OUTCOME)
            if matched:
                claim.take()
    except Error as error:
        cause = describe_exception(error)
        logger.warning("job %s (%s): its outcome is written again: %s", job.pk, job.job_type, cause)
        if not connections[alias].in_atomic_block:
            connections[alias].close()
        _finish_again(job, outcome, alias)
        return claim.adopt()
    if not matched:
        _finish_again(job, outcome, alias)
        return None
    persistence.written(job, alias)
    return claim.confirm()


def has_listeners() -> bool:
    """Whether code of the host hears of outcomes: it must not eat the lease of the next job."""
    return bool(job_finished.receivers or job_transitioned.receivers)


def _finish_again(job: Job, outcome: Outcome, alias: str) -> None:
    try:
        finish_applied(job, outcome, alias, patience=PATIENCE)
    except LeaseLost as error:
        logger.warning("job %s (%s): its outcome is dropped: %s", job.pk, job.job_type, error)
