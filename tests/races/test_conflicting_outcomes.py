"""Two processes decide about the same job at the same moment: one of them wins, the other knows."""

import pytest
from django.db import connection

from django_jobs.models import Asset, Job, JobStatus
from django_jobs.testing import make_job
from tests.races.contest import contest
from tests.stored import log_of, row_of, steps_of

pytestmark = pytest.mark.django_db(transaction=True)

LOST = {"StaleJob", "InvalidStateTransitionError"}


@pytest.fixture
def jobs(user, monkeypatch):
    """Make jobs in a state, for processes that find the test's database."""
    monkeypatch.setenv("TEST_CONNECT_TO", str(connection.settings_dict["NAME"]))
    return lambda status, number=100: [make_job(user, status) for _ in range(number)]


def is_consistent_end(row):
    """Say whether a row is COMPLETED with all that belongs to it, or FAILED, and no mixture."""
    end = {name: row[name] for name in ("progress", "result", "error_message", "failure_code")}
    if row["status"] == JobStatus.COMPLETED:
        return list(end.values()) == [100, {"rows": 3}, "", ""]
    return row["status"] == JobStatus.FAILED and list(end.values()) in (
        [30, None, "No disk.", "handler_error"],  # by save
        [0, None, "No disk.", "handler_error"],  # by service
    )


@pytest.mark.parametrize("way", ["save", "service"])
def test_of_completing_and_failing_one_happens(jobs, way):
    made = jobs(JobStatus.PROCESSING, 200)

    completed, failed = contest(
        f"tests.races.contestants.complete_by_{way}",
        f"tests.races.contestants.fail_by_{way}",
        [job.pk for job in made],
    )

    for job, completion, failure in zip(made, completed, failed, strict=True):
        row = row_of(job)
        winner = JobStatus.COMPLETED if completion == "won" else JobStatus.FAILED
        loser = failure if completion == "won" else completion
        assert sorted([completion, failure]).count("won") == 1
        assert loser in LOST
        assert row["status"] == winner
        assert is_consistent_end(row)
        assert (row["version"], row["due_at"]) == (2, None)
        assert row["completed_at"] == row["updated_at"] == log_of(job)[-1]["created_at"]
        assert steps_of(job) == ["queued", "processing", winner]


@pytest.mark.parametrize("way", ["save", "service"])
def test_of_two_who_start_a_job_one_does(jobs, way):
    made = jobs(JobStatus.QUEUED)

    contestant = f"tests.races.contestants.start_by_{way}"
    answers = contest(contestant, contestant, [job.pk for job in made])

    for job, *results in zip(made, *answers, strict=True):
        # the service treats the second start as an update of the progress
        assert results.count("won") == 1 or way == "service"
        assert set(results) <= {"won"} | LOST
        assert row_of(job)["attempt"] == 1
        assert steps_of(job) == ["queued", "processing"]


def test_a_job_is_cancelled_before_its_start_or_asked_to_stop_after_it(jobs):
    made = jobs(JobStatus.QUEUED)

    started, cancelled = contest(
        "tests.races.contestants.start_by_save",
        "tests.races.contestants.cancel",
        [job.pk for job in made],
    )

    assert set(cancelled) == {"won"}
    for job, start in zip(made, started, strict=True):
        job = Job.objects.get(pk=job.pk)
        if start == "won":
            assert (job.status, job.attempt) == ("processing", 1)
            assert job.cancel_requested_at is not None
            assert steps_of(job) == ["queued", "processing", "processing"]
        else:
            assert start == "StaleJob"
            assert (job.status, job.failure_code, job.attempt) == ("failed", "cancelled", 0)
            assert steps_of(job) == ["queued", "processing", "failed"]


@pytest.mark.parametrize("meanwhile", ["report_progress", "link_asset"])
def test_what_is_told_of_a_job_comes_before_its_end_or_not_at_all(jobs, meanwhile):
    made = jobs(JobStatus.PROCESSING)

    told, completed = contest(
        f"tests.races.contestants.{meanwhile}",
        "tests.races.contestants.complete_by_service",
        [job.pk for job in made],
    )

    assert set(completed) == {"won"}
    assert set(told) <= {"won", "LeaseLost"}
    for job in made:
        assert is_consistent_end(row_of(job))
        assert steps_of(job) == ["queued", "processing", "completed"]
    if meanwhile == "link_asset":
        assert Asset.objects.count() == told.count("won")
