"""Many jobs, several workers: each body entered once, in the order of the queue."""

import pytest

from django_jobs.models import Job
from django_jobs.services import create_job, create_jobs
from tests.clusters.processes import Cluster, entries, wait_for

pytestmark = pytest.mark.django_db(transaction=True)
WORKERS = 4


def test_four_workers_in_two_clusters_enter_200_bodies_once_each(user, tmp_path, notes):
    parameters = {"entries": str(notes)}
    with (
        Cluster(tmp_path, name="one", workers=2),
        Cluster(tmp_path, name="two", workers=2),
    ):
        jobs = create_jobs(user, "note", [parameters] * 200)  # one commit: a barrier
        wait_for(lambda: not Job.objects.live().exists(), what="200 jobs are done")
    entered = [job_id for job_id, *_ in entries(notes)]
    assert sorted(entered) == sorted(str(job.pk) for job in jobs)
    assert Job.objects.filter(status="completed", attempt=1).count() == 200
    assert len({pid for _, _, pid, _ in entries(notes)}) > 1  # the work was shared
    assert_in_order(entered, [str(job.pk) for job in jobs])


def test_higher_priority_goes_first_then_age(user, tmp_path, notes):
    parameters = {"entries": str(notes)}
    low = [create_job(user, "note", parameters, priority=-5) for _ in range(3)]
    usual = [create_job(user, "note", parameters) for _ in range(3)]
    high = [create_job(user, "note", parameters, priority=7) for _ in range(3)]
    with Cluster(tmp_path, workers=1):
        wait_for(lambda: not Job.objects.live().exists(), what="the jobs are done")
    expected = [str(job.pk) for job in (*high, *usual, *low)]
    assert [job_id for job_id, *_ in entries(notes)] == expected


def test_queues_that_a_cluster_does_not_serve_are_left_alone(user, tmp_path, notes):
    parameters = {"entries": str(notes)}
    elsewhere = create_job(user, "note", parameters, queue="elsewhere")
    here = create_job(user, "note", parameters, queue="here")
    with Cluster(tmp_path, workers=1, DJANGO_JOBS_QUEUES="here,also"):
        wait_for(lambda: Job.objects.get(pk=here.pk).is_terminal)
        assert Job.objects.get(pk=elsewhere.pk).status == "queued"


def assert_in_order(entered, expected):
    """Whoever enters a job has overtaken only those that the other workers held at that moment."""
    places = [expected.index(job_id) for job_id in entered]
    overtaken = [
        sum(later < place for later in places[index:]) for index, place in enumerate(places)
    ]
    assert max(overtaken) < WORKERS, overtaken
