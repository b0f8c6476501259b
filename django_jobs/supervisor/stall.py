"""Whether a cluster that lives takes up jobs."""

from __future__ import annotations

import logging
import os
import time
import uuid

from django.db import Error, connections
from django_q.conf import Conf
from django_q.models import OrmQ

from django_jobs.execution.claim import claimable
from django_jobs.models import Job, JobStatus, clock
from django_jobs.services.identity import machine_prefix
from django_jobs.supervisor.generation import Generation
from django_jobs.values import describe_exception

logger = logging.getLogger(__name__)
STALL = 10.0  # seconds in which due work is not taken up by idle workers


class Stall:
    """Whether a cluster lives and takes up nothing: due work waits while workers are idle."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self._seen: tuple[int, uuid.UUID | None] | None = None
        self._since = 0.0
        self._looks_at = 0.0

    def lasts(self, generation: Generation) -> bool:
        """Say whether the same job has waited for ``STALL`` seconds. Looks each few seconds."""
        now = time.monotonic()
        if now < self._looks_at:
            return False
        self._looks_at = now + STALL / 4
        try:
            waits = self._oldest_that_waits_for_nothing(generation)
        except Error as error:  # an outage is nobody's stall
            logger.warning("cannot see whether jobs are taken up: %s", describe_exception(error))
            connections.close_all()
            waits = None
        if waits is None or self._seen != (generation.main, waits):
            self._seen, self._since = (generation.main, waits), now
            return False
        return now - self._since >= STALL

    def has_nothing_to_do(self, generation: Generation) -> bool:
        """Whether no process of ``generation`` runs a job, or may run an ordinary task."""
        try:
            return self._engaged(generation) == 0
        except Error:
            connections.close_all()
            return False

    def _oldest_that_waits_for_nothing(self, generation: Generation) -> uuid.UUID | None:
        oldest: uuid.UUID | None = claimable(self.alias).values_list("pk", flat=True).first()
        if oldest is None or self._engaged(generation) >= Conf.WORKERS:
            return None
        return oldest

    def _engaged(self, generation: Generation) -> int:
        """How many workers of ``generation`` run jobs, or may run ordinary tasks."""
        workers = Job.objects.using(self.alias).filter(
            status=JobStatus.PROCESSING, worker__startswith=machine_prefix()
        )
        pids = [int(name.split("/")[2]) for name in workers.values_list("worker", flat=True)]
        running = sum(_group_of(pid) == generation.main for pid in pids)
        ordinary = OrmQ.objects.using(Conf.ORM or self.alias).filter(
            key=Conf.CLUSTER_NAME, lock__gt=clock.now(self.alias)
        )
        return running + int(ordinary.count())


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None
