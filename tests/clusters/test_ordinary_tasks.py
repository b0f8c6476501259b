"""django-q2's own tasks and schedules in a cluster whose broker is the job table."""

import pytest
from django.utils import timezone
from django_q.models import Schedule
from django_q.scheduler import scheduler
from django_q.tasks import async_task

from django_jobs.broker import JobBroker
from django_jobs.services import create_job
from tests.clusters.processes import Cluster, wait_for
from tests.clusters.test_lost_workers import ended

pytestmark = pytest.mark.django_db(transaction=True)
TASK = "tests.sample_jobs.job_handlers.ordinary_task"


def test_ordinary_tasks_run_beside_jobs(user, tmp_path):
    with Cluster(tmp_path):
        async_task(TASK, str(tmp_path / "task"))
        job = create_job(user, "noop")
        wait_for((tmp_path / "task").exists, what="the task ran")
        assert wait_for(lambda: ended(job)).status == "completed"


def test_schedules_run(user, tmp_path):
    Schedule.objects.create(
        func=TASK,
        args=repr((str(tmp_path / "scheduled"),)),
        schedule_type=Schedule.ONCE,
        next_run=timezone.now(),
    )
    with Cluster(tmp_path):
        scheduler(broker=JobBroker())  # what the cluster itself does every 30 s
        wait_for((tmp_path / "scheduled").exists, what="the scheduled task ran")


def test_an_alternative_cluster_drains_jobs_while_the_main_one_runs_on_another_broker(
    user, tmp_path
):
    cluster = {
        "broker_class": None,
        "ALT_CLUSTERS": {"jobs": {"broker_class": "django_jobs.broker.JobBroker", "workers": 1}},
    }
    with Cluster(tmp_path, workers=1, cluster=cluster, Q_CLUSTER_NAME="jobs"):
        job = create_job(user, "noop")
        assert wait_for(lambda: ended(job)).status == "completed"
