"""Two processes decide about the same job at the same moment: one of them wins, the other knows."""

import pytest

from django_jobs.models import Asset, Job, JobStatus
from tests.races.contest import contest
from tests.races.ends import LOST, is_consistent_end
from tests.stored import row_of, steps_of

pytestmark = pytest.mark.django_db(transaction=True)


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
