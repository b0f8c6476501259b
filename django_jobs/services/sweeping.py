"""Settling all there is to settle, for a process that comes and goes: cron, or a person."""

from __future__ import annotations

import time
from collections.abc import Iterator

from django_jobs.models import Job
from django_jobs.services.settling import Sightings, settle

MARGIN = 0.1  # seconds beyond the two ticks between two sightings


def settle_all(alias: str) -> Iterator[Job]:
    """Yield each job that was ended or put back, until there is none.

    Takes a little more than two ticks if there are lapsed leases: only a second look, that much
    later, proves that nobody renews them. Takes no time if there are none.
    """
    sightings = Sightings()
    while True:
        while batch := settle(alias, sightings):
            yield from batch
        wait = sightings.seconds_to_confirm()
        if not wait:
            return
        time.sleep(wait + MARGIN)
