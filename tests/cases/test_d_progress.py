"""Group D: progress is seen soon, never goes back, and never costs a job its outcome."""

import json
import time
from contextlib import contextmanager

import pytest
from django.core.management import call_command
from django.db import transaction

from django_jobs.models import Job
from django_jobs.services import create_job, transition_status, update_progress
from django_jobs.testing import run_due_jobs
from tests.api.callers import Caller, allow
from tests.cases.books import ended
from tests.cases.locks import writer_lock
from tests.cases.storing import storages_on
from tests.clusters.processes import entries, is_sqlite, wait_for
from tests.clusters.test_lost_workers import worker_of
from tests.stored import row_of

pytestmark = pytest.mark.django_db(transaction=True)

SOON = 1.0  # seconds within which a report is seen
NOISE = 0.5  # seconds that a busy machine may add


def watched(job, until):
    """Poll the API until ``until(body)``; return what was seen: (time before, body)."""
    caller, seen = Caller(job.user), []
    while not seen or not until(seen[-1][1]):
        asked_at = time.time()
        seen.append((asked_at, caller.get("job-detail", job.pk).json()))
        assert len(seen) < 10_000
        time.sleep(0.02)
    return seen


def percents(seen):
    return [body["progress"] for _, body in seen]


@pytest.mark.parametrize(
    ("given", "total"),
    [([], None), ([], 0), ([1, 2], 0), ([1, 2], -5), (range(5), 2), (iter([1, 2]), None)],
    ids=["nothing", "none of 0", "2 of 0", "2 of -5", "5 of 2", "unknown"],
)
def test_d02_a_total_of_nothing_or_nonsense_is_no_error(user, handler, given, total):
    seen = []

    def work(job):
        for _ in job.track(given, "Counting", total=total):
            seen.append(Job.objects.get(pk=job.id).progress)

    job = create_job(user, handler(work))
    run_due_jobs()
    end = ended(job)
    assert (end.status, end.progress, end.error_message) == ("completed", 100, "")
    assert all(0 <= percent <= 100 for percent in seen)


@pytest.mark.parametrize("atomic", [False, True], ids=["plain", "atomic"])
def test_d03_a_report_is_seen_within_a_second(cluster, user, waiting, gate, told, atomic):
    with cluster(workers=1, jobs={"TICK": 5, "LEASE": 30}):  # as they are by default
        job = create_job(user, "steps", {**waiting, "told": str(told), "atomic": atomic})
        if atomic and is_sqlite():  # one writer: it is seen when the handler's own has ended
            wait_for(lambda: told.exists() and "90 " in told.read_text(), what="90 was reported")
            assert row_of(job)["progress"] == 0
            seen = []
        else:
            seen = watched(job, lambda body: body["progress"] == 90)
        gate.touch()
        end = wait_for(lambda: ended(job))
    reports = [line.split() for line in told.read_text().splitlines()]
    assert [int(percent) for percent, _ in reports] == list(range(10, 100, 10))
    for percent, at in reports:
        late = [body for asked, body in seen if asked >= float(at) + SOON + NOISE]
        assert not late or late[0]["progress"] >= int(percent)
    assert percents(seen) == sorted(percents(seen))
    if atomic:  # it was rolled back; what was reported and why it failed were not
        assert (end.status, end.progress) == ("failed", 90)
        assert end.error_message == "RuntimeError: rolled back"
    else:
        assert (end.status, end.progress) == ("completed", 100)
        assert len(set(percents(seen))) >= 4  # as it came, not all at the end
        estimates = [body["estimated_completion"] for _, body in seen]
        assert all(
            (estimate is not None) == (0 < body["progress"] < 100)
            for estimate, (_, body) in zip(estimates, seen, strict=True)
        )
    assert end.estimated_completion is None


def test_d05_threads_that_report_at_once_lose_nothing(cluster, user, notes):
    with cluster(workers=1):
        job = create_job(user, "reports-from-threads", {"entries": str(notes)})
        seen = watched(job, lambda body: body["done"])
        end = ended(job)
    assert (end.status, end.error_message, end.progress) == ("failed", "counted", 80)
    assert (end.items_total, end.items_succeeded, end.items_failed) == (400, 400, 0)
    assert percents(seen) == sorted(percents(seen))
    counts = [body["items"]["succeeded"] for _, body in seen]
    assert counts == sorted(counts)


def test_d06_a_thread_that_outlives_its_handler_changes_nothing(
    cluster, user, notes, waiting, gate, told
):
    with cluster(workers=1):
        job = create_job(user, "leaves-a-thread", {"entries": str(notes), "told": str(told)})
        first = wait_for(lambda: ended(job) and row_of(job))
        following = create_job(user, "reports-and-waits", waiting)
        worker_of(following, notes)
        wait_for(told.exists, what="the thread has ended")
        assert row_of(job) == first
        row = row_of(following)
        assert (row["status"], row["progress"], row["progress_message"][:3]) == (
            "processing",
            5,
            "at ",
        )
        gate.touch()
        wait_for(lambda: ended(following))
    assert len({line[2] for line in entries(notes)}) == 1  # both ran in one process
    assert told.read_text() == "taken\n"  # quietly
    assert (first["status"], first["progress"]) == ("completed", 100)


def test_d06_a_report_after_the_sweep_is_dropped_with_a_warning(user, external_type, caplog):
    job = create_job(user, external_type)
    transition_status(job.pk, "processing", progress=40)
    Job.objects.filter(pk=job.pk).update(due_at=job.created_at)
    call_command("settle_jobs", verbosity=0)
    wait_for(lambda: ended(job) or call_command("settle_jobs", verbosity=0))
    end = row_of(job)
    assert (end["status"], end["failure_code"], end["progress"]) == ("failed", "worker_lost", 40)
    assert update_progress(job.pk, 80, message="late").status == "failed"
    assert row_of(job) == end
    assert "progress ignored, the job is failed" in caplog.text


@contextmanager
def row_locked(job):
    """Let nobody else write the row of ``job``."""
    if is_sqlite():
        with writer_lock():
            yield
        return
    with transaction.atomic():
        Job.objects.select_for_update().get(pk=job.pk)
        yield


def test_d08_reports_that_cannot_be_written_do_not_disturb_the_handler(
    cluster, user, notes, waiting, gate
):
    with cluster(workers=1, jobs={"LEASE": 3}) as running:
        job = create_job(user, "reports-and-waits", waiting)
        worker_of(job, notes)
        wait_for(lambda: row_of(job)["progress"] == 5)
        with row_locked(job):
            before = row_of(job)["progress_message"]
            time.sleep(8)  # longer than any patience of the keeper, and than the lease
            assert row_of(job)["progress_message"] == before
        wait_for(lambda: row_of(job)["progress_message"] != before, what="a later report")
        gate.touch()
        end = wait_for(lambda: ended(job))
        assert "its lease could not be renewed" in running.output()
    assert (end.status, end.attempt, end.progress) == ("completed", 1, 100)


@pytest.mark.parametrize("engine", ["worker", "here"])
def test_d09_the_last_value_is_that_of_the_outcome(cluster, user, notes, engine):
    ways = ["return", "partial", "raise"]
    jobs = [create_job(user, "stops-at-97", {"entries": str(notes), "end": way}) for way in ways]
    if engine == "worker":
        with cluster(workers=1):
            ends = [wait_for(lambda job=job: ended(job)) for job in jobs]
    else:
        run_due_jobs()
        ends = [ended(job) for job in jobs]
    assert [(end.status, end.progress) for end in ends] == [
        ("completed", 100),
        ("partial", 100),
        ("failed", 97),
    ]


def test_d_many_failed_items_are_listed_and_retried_alone(cluster, user, notes, tmp_path, settings):
    """The rule of partial success, in a real worker with files that it shares with others."""
    files = tmp_path / "files"
    settings.STORAGES = {**settings.STORAGES, **storages_on(files)}
    parameters = {"entries": str(notes), "count": 500}
    with cluster(workers=1, TEST_STORAGES=json.dumps(storages_on(files))):
        job = create_job(user, "half-fail", parameters)
        partial = wait_for(lambda: ended(job), what="the first job")
        assert (partial.status, partial.items_total, partial.items_failed) == ("partial", 500, 250)
        assert partial.error_message.splitlines()[0] == "250 of 500 items failed."
        assert partial.error_message.splitlines()[-1] == "and 245 more"
        names = [f"item {number}" for number in range(1, 500, 2)]
        assert [item["name"] for item in partial.failed_items] == names[:100]
        [asset] = partial.assets.all()
        listed = (files / asset.storage_path).read_text().splitlines()
        assert [json.loads(line)["name"] for line in listed] == names

        answer = Caller(allow(user, "add_job")).post("job-retry", job.pk, {"only_failed": True})
        retried = Job.objects.get(pk=answer.json()["id"])
        end = wait_for(lambda: ended(retried), what="the retry")
    assert (end.status, end.items_total, end.retry_of) == ("completed", 250, job)
    assert end.result == {"names": names}
