"""Whatever is interleaved, the promises hold; and a settler alone ends everything.

``TEST_MACHINE_EXAMPLES`` and ``TEST_MACHINE_STEPS`` make it look longer; with
``TEST_MACHINE_SHRINK`` it then shortens what it found.
"""

import contextlib
import copy
import datetime as dt
import logging
import os
import sys

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from django_jobs.exceptions import JobsError, LeaseLost
from django_jobs.execution import claim as claiming
from django_jobs.execution.claim import claim_next
from django_jobs.execution.finish import finish
from django_jobs.execution.handover import finish_and_claim
from django_jobs.execution.outcome import Outcome
from django_jobs.handlers import job_handler, register_job_type
from django_jobs.models import Asset, FailureCode, Job, clock
from django_jobs.models.attempts import is_ours
from django_jobs.services import (
    cancel_job,
    create_job,
    mark_completed,
    mark_failed,
    mark_partial,
    retry_job,
    transition_status,
    update_progress,
)
from django_jobs.services.assets import attach
from django_jobs.services.deletion import delete_job
from django_jobs.services.fencing import Fence
from django_jobs.services.identity import machine_prefix
from django_jobs.services.progress import write_progress
from django_jobs.services.settling import Sightings, settle
from django_jobs.states import TERMINAL_STATES
from tests.execution.losing import reply_lost
from tests.protocol.promises import Ledger, is_open
from tests.protocol.world import LEASE, MEANWHILE, TICK, World
from tests.stored import row_of, stored

pytestmark = pytest.mark.django_db(transaction=True)

EXAMPLES = int(os.environ.get("TEST_MACHINE_EXAMPLES", "50"))
STEPS = int(os.environ.get("TEST_MACHINE_STEPS", "30"))
SHRINK = "TEST_MACHINE_SHRINK" in os.environ  # look for a shorter way to what was found: minutes
DAY = 86_400
ELSEWHERE = ("other/machine/17/4711/aaaa", "other/machine/18/4712/bbbb")
OUTCOMES = {
    "completed": Outcome({"rows": 3}),
    "partial": Outcome({"rows": 1}, FailureCode.SOME_ITEMS_FAILED, "one", is_partial=True),
    "failed": Outcome(code=FailureCode.HANDLER_ERROR, message="no"),
    "repeatable": Outcome(code=FailureCode.HANDLER_ERROR, message="again", is_repeatable=True),
    "not storable": Outcome({"rows": float("nan")}),
}
STEPS_OF_A_COPY = {
    "start": lambda job: job.start(worker="other/machine/19/4713/cccc", lease=LEASE),
    "complete": lambda job: job.complete({"by": "a copy"}),
    "complete_partially": lambda job: job.complete_partially(None, "by a copy"),
    "fail": lambda job: job.fail("by a copy"),
    "postpone": lambda job: job.postpone(delay=7, code="handler_error", message="by a copy"),
}
VERBS = {
    "start": lambda key: transition_status(key, "processing"),
    "progress": lambda key: update_progress(key, 50),
    "complete": lambda key: mark_completed(key, {"by": "a driver"}),
    "partial": lambda key: mark_partial(key, None, "by a driver"),
    "fail": lambda key: mark_failed(key, "by a driver"),
}
meanwhile = st.sampled_from(("", "", *MEANWHILE))
ENDS = st.sampled_from(("fails", "lapses", "is almost settled"))
sometimes = st.sampled_from((False, False, False, True))


class JobMachine(RuleBasedStateMachine):
    """Workers, zombies, users, drivers and settlers at the same rows, in any order."""

    user = None
    jobs = Bundle("jobs")  # keys
    attempts = Bundle("attempts")  # jobs as their workers claimed them, long ago perhaps
    copies = Bundle("copies")  # jobs as somebody read them, long ago perhaps

    def __init__(self):
        super().__init__()
        self.patched = pytest.MonkeyPatch()
        self.world = World(self.patched, self.user)
        self.ledger = Ledger()
        self.settlers = [Sightings(), Sightings()]
        self.restarts = 0
        self.created = 0
        self.claimed = {}  # by fence, every attempt there ever was
        self.holders = {}  # by job, as it was when the zombies were last let loose

    # -- time and death ------------------------------------------------------------------------

    @rule(
        seconds=st.sampled_from((1, 1, 6, 6, 2 * TICK, 2 * TICK, LEASE + 1, LEASE + 1, 200, 1000))
    )
    def time_passes(self, seconds):
        self.world.move_on(seconds)

    @rule()
    def a_worker_of_this_machine_dies(self):
        self.world.dead.add(self.workers[-1])
        self.restarts += 1

    @property
    def workers(self):
        return [*ELSEWHERE, f"{machine_prefix() or 'this/machine/'}{self.restarts}/1/dddd"]

    # -- users ---------------------------------------------------------------------------------

    @initialize(target=jobs)
    def the_first_jobs(self):
        return multiple(*(create_job(self.user, name).pk for name in ("thrice", "thrice", "once")))

    @precondition(lambda self: self.created < 4)  # few jobs, to which much happens
    @rule(
        target=jobs,
        job_type=st.sampled_from(("once", "thrice", "thrice", "outside")),
        priority=st.sampled_from((0, 0, 5)),
        delay=st.sampled_from((None, None, None, 100)),
    )
    def create(self, job_type, priority, delay):
        self.created += 1
        run_at = None if delay is None else clock.now() + dt.timedelta(seconds=delay)
        return create_job(self.user, job_type, priority=priority, run_at=run_at).pk

    @rule(key=jobs, meanwhile=meanwhile)
    def cancel(self, key, meanwhile):
        before = Job.objects.filter(pk=key).values().first()
        with self.world.acting("cancel", meanwhile), contextlib.suppress(JobsError):
            cancel_job(key, actor=self.user)
        if before and not meanwhile and before["status"] not in TERMINAL_STATES:
            after = Job.objects.get(pk=key)
            assert after.cancel_requested_at or after.failure_code == FailureCode.CANCELLED

    @rule(target=jobs, key=jobs)
    def retry(self, key):
        with contextlib.suppress(JobsError):
            return retry_job(key, actor=self.user).pk
        return multiple()

    @rule(key=jobs, by_force=sometimes)
    def delete(self, key, by_force):
        before = Job.objects.filter(pk=key).values().first()
        with contextlib.suppress(JobsError):
            delete_job(key)
        is_there = Job.objects.filter(pk=key).exists()
        assert is_there == (before is not None and before["status"] not in TERMINAL_STATES)
        if by_force:  # as when its user is deleted
            Job.objects.filter(pk=key).delete()

    # -- workers -------------------------------------------------------------------------------

    @rule(target=attempts, who=st.integers(0, 2), meanwhile=meanwhile, is_lost=sometimes)
    def claim(self, who, meanwhile, is_lost):
        expected = self._next_to_claim()
        with self.world.acting("claim", meanwhile), self._losing(is_lost and not meanwhile):
            job = claim_next("default", self.workers[who])
        if not meanwhile:
            assert (job and job.pk) == expected, "not the first in the order of claims"
        return self._claimed(job)

    def _next_to_claim(self):
        now, ended = self.world.now, 0
        for row in Job.objects.filter(status__in=("queued", "processing"), worker="").order_by(
            "-priority", "due_at", "id"
        ):
            if row.due_at > now or row.type.is_external:
                continue
            if row.cancel_requested_at is None and row.start_deadline_at > now:
                return row.pk
            ended += 1  # it is ended instead
            if ended >= claiming.ROUNDS:
                return None
        return None

    def _claimed(self, job):
        if job is None:
            return multiple()
        assert is_open(row_of(job)) and Fence.of(job).row("default").exists(), "it is ours"
        self.claimed[Fence.of(job)] = copy.copy(job)
        return copy.copy(job)

    @rule(target=attempts, who=st.integers(0, 2), ends=ENDS, other=st.integers(0, 2))
    def go_to_the_next_attempt(self, who, ends, other):
        """What chance alone leads to too rarely: a zombie, and its job taken up again."""
        create_job(self.user, "thrice", priority=9)
        first = claim_next("default", self.workers[who])
        if first is None:  # many ended instead of being started
            return multiple()
        self._claimed(first)
        if ends != "fails":
            meanwhile = "renew" if ends == "is almost settled" else ""
            self.settle(who=0, after=LEASE + 1, rounds=2, meanwhile=meanwhile)
        else:
            finish(copy.copy(first), OUTCOMES["repeatable"], "default", patience=0)
        self.a_zombie_changes_nothing()
        self.world.move_on(20)
        second = self._claimed(claim_next("default", self.workers[other]))
        return first if second == multiple() else multiple(first, second)

    @contextlib.contextmanager
    def _losing(self, is_lost):
        with reply_lost(at=1) if is_lost else contextlib.nullcontext():
            yield

    def _is_open(self, held):
        row = Job.objects.filter(pk=held.pk).values().first()
        return (
            row is not None
            and is_open(row)
            and (row["attempt"], row["worker"]) == (held.attempt, held.worker)
        )

    @rule(held=attempts, percent=st.integers(0, 100), seconds=st.sampled_from((None, LEASE)))
    def report(self, held, percent, seconds):
        if held.worker in self.world.dead:
            return
        before, may_write = self._stored(held), self._is_open(held)
        lease = {} if seconds is None else {"due_at": held.lease_end(clock.now(), seconds)}
        matched = write_progress(Fence.of(held), "default", percent, **lease)
        assert matched == may_write, "the fence"
        assert matched or self._stored(held) == before

    @rule(held=attempts, name=st.sampled_from("ab"))
    def save_asset(self, held, name):
        if held.worker not in self.world.dead:
            self._attach(held, name)

    def _attach(self, held, name):
        before, may_write = Asset.objects.count(), self._is_open(held)
        asset = Asset(
            job_id=held.pk,
            user=self.user,
            name=name,
            asset_type="text",
            attempt=held.attempt,
            url="https://example.org/",
        )
        try:
            attach(asset, Fence.of(held), "default")
        except LeaseLost:
            assert not may_write
            assert Asset.objects.count() == before
        else:
            assert may_write, "the fence"

    @rule(
        held=attempts,
        outcome=st.sampled_from(sorted(OUTCOMES)),
        meanwhile=meanwhile,
        is_lost=sometimes,
    )
    def finish(self, held, outcome, meanwhile, is_lost):
        if held.worker in self.world.dead:
            return
        before, may_write = self._stored(held), self._is_open(held)
        job, is_refused = copy.copy(held), False
        with self.world.acting(Fence.of(held), meanwhile), self._losing(is_lost and not meanwhile):
            try:
                finish(job, OUTCOMES[outcome], "default", patience=60)
            except LeaseLost:
                is_refused = True
        if not meanwhile:
            assert is_refused != may_write, "the fence"
            self._check_finished(held, before, is_refused)

    @rule(
        target=attempts,
        held=attempts,
        outcome=st.sampled_from(sorted(OUTCOMES)),
        meanwhile=meanwhile,
        is_lost=sometimes,
    )
    def finish_and_claim(self, held, outcome, meanwhile, is_lost):
        if held.worker in self.world.dead:
            return multiple()
        before, may_write = self._stored(held), self._is_open(held)
        job = copy.copy(held)
        with self.world.acting(Fence.of(held), meanwhile), self._losing(is_lost and not meanwhile):
            following = finish_and_claim(job, OUTCOMES[outcome], "default", held.worker)
        if not meanwhile:
            self._check_finished(held, before, not may_write)
        return self._claimed(following)

    def _check_finished(self, held, before, is_refused):
        if is_refused:
            assert self._stored(held) == before, "a late outcome changed something"
        else:
            assert not self._is_open(held), "the attempt goes on after its outcome"

    def _stored(self, job):
        return stored(job) if Job.objects.filter(pk=job.pk).exists() else None

    # -- drivers, and host code with copies of its own -----------------------------------------

    @rule(key=jobs, verb=st.sampled_from(sorted(VERBS)))
    def drive(self, key, verb):
        before = Job.objects.filter(pk=key).values().first()
        is_held = before is not None and is_open(before) and is_ours(before["worker"])
        try:
            VERBS[verb](key)
        except JobsError:
            assert Job.objects.filter(pk=key).values().first() == before
        else:
            assert not is_held, "a driver wrote for a job that a worker holds"

    @rule(target=copies, key=jobs)
    def read(self, key):
        job = Job.objects.filter(pk=key).first()
        return multiple() if job is None else job

    @rule(read=st.one_of(copies, attempts), step=st.sampled_from(sorted(STEPS_OF_A_COPY)))
    def save_a_copy(self, read, step):
        job = copy.copy(read)
        before = self._stored(job)
        try:
            if step == "postpone" and not job.may_be_repeated:
                return
            if step == "postpone" and not job.worker:
                return  # no attempt of it is open: not a step
            STEPS_OF_A_COPY[step](job)
            job.save()
        except JobsError:
            assert self._stored(job) == before
        else:
            fence = (read.status, read.attempt, read.worker)
            row = before[0]
            assert (row["status"], row["attempt"], row["worker"]) == fence, "a stale copy"

    # -- settlers ------------------------------------------------------------------------------

    @rule(
        who=st.integers(0, 1),
        after=st.sampled_from((0, LEASE + 1)),
        rounds=st.sampled_from((1, 2)),
        meanwhile=meanwhile,
    )
    def settle(self, who, after, rounds, meanwhile):
        self.world.move_on(after)
        for number in range(rounds):
            if number:
                self.world.move_on(2 * TICK)
            with self.world.acting("settle", meanwhile):
                settle("default", self.settlers[who])

    # -- the promises --------------------------------------------------------------------------

    @invariant()
    def the_promises_hold(self):
        self.ledger.look()

    @invariant()
    def a_zombie_changes_nothing(self):
        """After each change of a job's holder, all who ever held it try to write."""
        holders = {
            key: holder
            for key, *holder in Job.objects.values_list("pk", "status", "attempt", "worker")
        }
        moved = {key for key in holders if holders[key] != self.holders.get(key)}
        self.holders = holders
        for fence, held in self.claimed.items():
            if fence.job_id in moved and not self._is_open(held):
                before = self._stored(held)
                assert not write_progress(fence, "default", 90), "a zombie reports"
                self._attach(held, "zombie")
                with pytest.raises(LeaseLost):
                    finish(copy.copy(held), OUTCOMES["completed"], "default", patience=0)
                assert self._stored(held) == before, "a zombie changed something"

    def teardown(self):
        try:
            if sys.exc_info()[0] is None:
                self._settlers_alone_end_everything()
        finally:
            self.patched.undo()
            self.world.clean()

    def _settlers_alone_end_everything(self):
        sightings = Sightings()
        for _ in range(4):  # seen, confirmed and put back; never taken up
            self.world.move_on(DAY)
            for _ in range(2):
                with self.world.acting("settle"):
                    settle("default", sightings, limit=1000)
                self.the_promises_hold()
                self.world.move_on(2 * TICK)
        assert not Job.objects.live().exists(), "the settlers alone do not end it"


def test_whatever_is_interleaved_the_promises_hold(user, settings_of_the_machine):
    JobMachine.user = user
    run_state_machine_as_test(
        JobMachine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=set(Phase) - (set() if SHRINK else {Phase.shrink}),
            report_multiple_bugs=False,
        ),
    )


@pytest.fixture
def settings_of_the_machine(settings):
    settings.DJANGO_JOBS = {
        "ENGINE": "django_q",
        "NOTIFY": False,
        "TICK": TICK,
        "LEASE": LEASE,
        "DEFAULT_QUEUE_TIMEOUT": 600,
        "DEFAULT_TIMEOUT": 120,
    }
    job_handler("once")(lambda job: None)
    job_handler("thrice", max_attempts=3, retry_delay=10)(lambda job: None)
    register_job_type("outside", timeout=60)
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
