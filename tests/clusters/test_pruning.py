"""Pruning beside workers: neither disturbs the other."""

import datetime as dt

import pytest

from django_jobs.models import Job, JobTransition, clock
from django_jobs.services import create_job, create_jobs, pruning
from django_jobs.services.pruning import prune_jobs
from django_jobs.testing import make_job
from tests.clusters.processes import Cluster, wait_for

pytestmark = pytest.mark.django_db(transaction=True)

AGE = dt.timedelta(days=30)


def test_old_jobs_go_while_workers_finish_new_ones(user, tmp_path, monkeypatch):
    monkeypatch.setattr(pruning, "BATCH", 20)
    old = [make_job(user, "failed", job_type="noop") for _ in range(200)]
    long_ago = clock.now() - AGE
    Job.objects.filter(pk__in=[job.pk for job in old]).update(completed_at=long_ago)
    with Cluster(tmp_path, workers=2) as cluster:
        new = create_jobs(user, "noop", [{}] * 100)
        for job in old[::4]:  # retries are what pruning and workers both write
            again = Job(user=user, job_type="noop", retry_of=job)
            again.save()
            new.append(again)
        assert prune_jobs(AGE).jobs == 200
        new.append(create_job(user, "noop"))
        wait_for(lambda: not Job.objects.live().exists(), what="all new jobs have ended")
    assert set(Job.objects.values_list("pk", flat=True)) == {job.pk for job in new}
    assert set(Job.objects.values_list("status", "retry_of")) == {("completed", None)}
    assert JobTransition.objects.count() == 3 * len(new)
    assert "Traceback" not in cluster.output()
