import pytest

from django_jobs.exceptions import InvalidStateTransitionError, JobNotDeletable, JobNotRetryable
from django_jobs.models import Job
from django_jobs.services import cancel_job, retry_job
from django_jobs.services.deletion import delete_job
from django_jobs.services.obstacles import (
    obstacle_to_cancel,
    obstacle_to_delete,
    obstacle_to_retry,
)
from django_jobs.states import JobStatus
from django_jobs.testing import make_job

pytestmark = pytest.mark.django_db


@pytest.fixture
def make(user, handler):
    kind = handler(lambda job: None)
    return lambda status: make_job(user, status, job_type=kind)


@pytest.mark.parametrize("status", list(JobStatus))
def test_what_is_offered_is_what_the_services_do(make, user, status):
    """Nothing that they would refuse is offered, nothing that they would do is held back."""
    questions = [
        (obstacle_to_cancel, lambda job: cancel_job(job.pk, actor=user)),
        (obstacle_to_retry, lambda job: retry_job(job.pk, actor=user)),
        (obstacle_to_delete, lambda job: delete_job(job.pk)),
    ]
    for obstacle_to, deed in questions:
        job = make(status)
        obstacle = obstacle_to(job)
        try:
            deed(job)
        except (InvalidStateTransitionError, JobNotRetryable, JobNotDeletable):
            assert obstacle == f"The job is {status}."
        else:
            assert obstacle == ""


def test_a_running_job_is_asked_to_stop_once(make, user):
    job = make("processing")
    job = cancel_job(job.pk, actor=user)

    assert obstacle_to_cancel(job) == "The job has been asked to stop already."


def test_a_job_is_retried_once(make, user):
    job = make("failed")
    retry_job(job.pk, actor=user)

    assert obstacle_to_retry(Job.objects.get(pk=job.pk)) == "The job was retried already."


def test_a_type_that_is_not_declared_cannot_be_retried(user):
    job = make_job(user, "failed", job_type="gone")

    assert obstacle_to_retry(job) == "There is no type of job called gone."
