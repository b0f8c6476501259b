"""A world in which time passes when told to, and others act between a look and a write."""

import contextlib
import datetime as dt
from types import SimpleNamespace

from django.conf import settings

from django_jobs.conf import conf
from django_jobs.exceptions import JobsError
from django_jobs.execution.claim import claim_next
from django_jobs.execution.finish import finish
from django_jobs.execution.outcome import Outcome
from django_jobs.models import Asset, Job, JobTransition, clock, statements, transient
from django_jobs.models.attempts import NOBODY
from django_jobs.services import cancel_job, settling
from django_jobs.services.fencing import Fence
from django_jobs.services.progress import write_progress
from tests.protocol.promises import is_open, is_waiting

LEASE = 30
TICK = 5
BYSTANDER = "other/machine/99/4711/zzzz"
MEANWHILE = ("renew", "cancel", "finish", "claim", "delete")


class World:
    """Time, deaths, and one thing that happens just before the next guarded write.

    A database's row locks would keep others away there; the guards must do without: the locks of
    one database are not those of the next.
    """

    def __init__(self, patched, user):
        self.user = user
        self.now = dt.datetime(2030, 1, 1, tzinfo=dt.UTC if settings.USE_TZ else None)
        self.seconds = 0.0
        self.dead = set()
        self.actor = ""
        self.meanwhile = ""
        self._update = statements.guarded_update
        patched.setattr(statements, "guarded_update", self._guarded_update)
        patched.setattr(clock, "timezone", SimpleNamespace(now=self._read_clock))
        patched.setattr(clock, "offset", lambda alias: dt.timedelta(0))
        patched.setattr(settling, "time", SimpleNamespace(monotonic=lambda: self.seconds))
        patched.setattr(settling, "is_certainly_dead", self.dead.__contains__)
        patched.setattr(transient, "WAIT", 0)

    def _read_clock(self):
        self.now += dt.timedelta(microseconds=1)  # no two moments are the same
        return self.now

    def move_on(self, seconds):
        self.now += dt.timedelta(seconds=seconds)
        self.seconds += seconds

    @contextlib.contextmanager
    def acting(self, actor, meanwhile=""):
        """Be ``actor``; ``meanwhile`` is what another does before the next guarded write."""
        outer = self.actor, self.meanwhile
        self.actor, self.meanwhile = actor, meanwhile
        try:
            yield
        finally:
            self.actor, self.meanwhile = outer

    def _guarded_update(self, model, alias, key, changes, expected):
        action, self.meanwhile = self.meanwhile, ""
        if action:
            with self.acting(action), contextlib.suppress(JobsError, Job.DoesNotExist):
                getattr(self, f"_{action}")(key)
        before = Job.objects.filter(pk=key).values().first()
        if not self._update(model, alias, key, changes, expected):
            return False
        self._judge(before, changes)
        return True

    # -- whether a decision was right when it was written --------------------------------------

    def _judge(self, row, changes):
        """Hold a write that matched against the row as it was just before."""
        if self.actor == "settle":
            if is_waiting(row):
                assert row["cancel_requested_at"] or self._is_late(row), "a wait was cut short"
            else:
                is_lapsed = row["due_at"] <= self.now or row["worker"] in self.dead
                assert is_open(row) and is_lapsed, "a living attempt was settled"
        elif self.actor == "claim":
            self._judge_claim(row, changes)
        elif isinstance(self.actor, Fence):
            if row["id"] != self.actor.job_id:
                return self._judge_claim(row, changes)
            assert is_open(row), "an attempt was ended that is not open"
            assert (row["attempt"], row["worker"]) == (self.actor.attempt, self.actor.worker)
            if changes.get("worker") == "":
                assert row["cancel_requested_at"] is None, "a retry after a request to cancel"
        return None

    def _judge_claim(self, row, changes):
        if set(changes) == {"due_at"}:
            return  # the lease of what was claimed, renewed after a reply that was lost
        assert is_waiting(row) and row["due_at"] <= self.now, "claimed what was not due"
        must_end = row["cancel_requested_at"] or self._is_late(row)
        is_started = changes.get("worker") not in (None, NOBODY)
        assert is_started != bool(must_end), "started what must end, or ended what may start"

    def _is_late(self, row):
        return row["start_deadline_at"] is not None and row["start_deadline_at"] <= self.now

    # -- what others do meanwhile --------------------------------------------------------------

    def _renew(self, key):
        job = Job.objects.get(pk=key)
        if job.worker:
            write_progress(Fence.of(job), "default", 10, due_at=clock.now() + 2 * self.lease)

    def _cancel(self, key):
        cancel_job(key, actor=self.user)

    def _finish(self, key):
        job = Job.objects.get(pk=key)
        if job.status == "processing" and job.worker:
            with self.acting(Fence.of(job)):
                finish(job, Outcome({"by": "the holder"}), "default", patience=0)

    def _claim(self, key):
        claim_next("default", BYSTANDER)

    def _delete(self, key):
        Job.objects.filter(pk=key).delete()

    @property
    def lease(self):
        return dt.timedelta(seconds=conf.lease("any"))

    def clean(self):
        """Empty the tables, quickly."""
        Job.objects.filter(retry_of__isnull=False).update(retry_of=None)
        for model in (Asset, JobTransition, Job):
            model.objects.all()._raw_delete("default")
