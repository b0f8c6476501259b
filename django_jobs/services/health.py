"""Whether jobs are taken up and brought to their end, or somebody must look after it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from django.db.models import Min

from django_jobs.models import Job, JobStatus, clock
from django_jobs.services.durations import in_words

SHOWN = 20  # ids of overdue jobs at most
LATE = 60.0  # seconds that due work may wait before nobody seems to take it up


@dataclass(frozen=True)
class Health:
    """What was found in the table at one moment. Waits are in seconds."""

    due: int
    running: int
    overdue: int
    overdue_ids: tuple[uuid.UUID, ...]  # the first ``SHOWN`` of them, oldest first
    oldest_wait: float  # of the due job that waits longest; 0 if none is due
    late: float

    @property
    def is_consumed(self) -> bool:
        """Whether due work is taken up in time."""
        return self.oldest_wait <= self.late

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, one sentence each."""
        problems = []
        if self.overdue:
            problems.append(
                f"{_jobs(self.overdue)} should have been ended or put back by now: "
                "their workers are lost, or no worker took them up in time."
            )
        if not self.is_consumed:
            waited = in_words(_rounded(self.oldest_wait))
            problems.append(
                f"Due work is not taken up: the oldest of {_jobs(self.due)} has waited {waited}."
            )
        return tuple(problems)

    @property
    def is_well(self) -> bool:
        return not self.problems


def check_health(alias: str | None = None, *, late: float = LATE) -> Health:
    """Look at the table and return what was found; ``late`` is how long due work may wait."""
    alias = clock.alias_for_write(alias)
    now = clock.now(alias)
    jobs = Job.objects.using(alias)
    due = jobs.due(now).order_by()
    oldest = due.aggregate(oldest=Min("due_at"))["oldest"]
    overdue = jobs.overdue(now)
    return Health(
        due=due.count(),
        running=jobs.filter(status=JobStatus.PROCESSING).exclude(worker="").count(),
        overdue=overdue.count(),
        overdue_ids=tuple(overdue.order_by("id").values_list("pk", flat=True)[:SHOWN]),
        oldest_wait=(now - oldest).total_seconds() if oldest else 0.0,
        late=late,
    )


def _rounded(seconds: float) -> int:
    for unit in (3600, 60):
        if seconds >= 2 * unit:
            return round(seconds / unit) * unit
    return round(seconds)


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"
