"""How many statements the verbs cost, exactly; those about transactions are not counted."""

import math

import pytest
from django.db import connection

from django_jobs.exceptions import InvalidStateTransitionError, StaleJob
from django_jobs.models import Job, JobStatus, JobTransition, clock
from django_jobs.services import create_job, create_jobs, transition_status, update_progress
from django_jobs.testing import make_job
from tests.stored import Statements

pytestmark = pytest.mark.django_db(transaction=True)

SELECT, UPDATE, INSERT = (
    "SELECT django_jobs_job",
    "UPDATE django_jobs_job",
    "INSERT django_jobs_job",
)
LOG = "INSERT django_jobs_jobtransition"


@pytest.fixture(autouse=True)
def jobs_only(settings):
    """The clock was read before, and nobody is told of new jobs."""
    settings.DJANGO_JOBS = {"ENGINE": "django_q", "NOTIFY": False}
    clock.now()


def commits(statements):
    return [query["sql"] for query in statements.captured_queries].count("COMMIT")


def test_creating_a_job_is_two_inserts_in_one_transaction(user, external_type):
    with Statements() as statements:
        create_job(user, external_type, {"path": "a.png"})
    assert statements.sent == [INSERT, LOG]
    assert commits(statements) == 1


def test_creating_many_jobs_is_two_inserts_in_one_transaction(user, external_type):
    with Statements() as statements:
        create_jobs(user, external_type, [{"n": n} for n in range(100)])
    assert statements.sent == [INSERT] * inserts(Job, 100) + [LOG] * inserts(JobTransition, 100)
    assert commits(statements) == 1


def inserts(model, rows):
    """One, except where the database takes a limited number of parameters (SQLite)."""
    at_once = connection.ops.bulk_batch_size(model._meta.concrete_fields, range(rows))
    return math.ceil(rows / min(at_once, rows))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (JobStatus.QUEUED, JobStatus.PROCESSING),
        (JobStatus.PROCESSING, JobStatus.COMPLETED),
        (JobStatus.PROCESSING, JobStatus.PARTIAL),
        (JobStatus.PROCESSING, JobStatus.FAILED),
    ],
)
def test_a_step_is_a_look_an_update_and_a_line_of_log(user, source, target):
    job = make_job(user, source)
    with Statements() as statements:
        transition_status(job.pk, target)
    assert statements.sent == [SELECT, UPDATE, LOG]
    assert commits(statements) == 1


def test_an_illegal_step_is_a_look(user):
    job = make_job(user, JobStatus.COMPLETED)
    with Statements() as statements, pytest.raises(InvalidStateTransitionError):
        transition_status(job.pk, JobStatus.FAILED)
    assert statements.sent == [SELECT]


def test_progress_is_a_look_and_an_update(user):
    job = make_job(user, JobStatus.PROCESSING)
    with Statements() as statements:
        update_progress(job.pk, 50)
    assert statements.sent == [SELECT, UPDATE]


def test_progress_outside_processing_is_a_look(user):
    job = make_job(user)
    with Statements() as statements:
        update_progress(job.pk, 50)
    assert statements.sent == [SELECT]


def test_saving_a_step_is_an_update_and_a_line_of_log(user):
    job = Job.objects.get(pk=make_job(user, JobStatus.PROCESSING).pk)
    with Statements() as statements:
        job.complete({"rows": 3})
        job.save()
    assert statements.sent == [UPDATE, LOG]
    assert commits(statements) == 1


def test_saving_several_steps_is_an_update_and_one_insert(user):
    job = Job.objects.get(pk=make_job(user).pk)
    with Statements() as statements:
        job.withdraw()
        job.fail("Not needed.")
        job.save()
    assert statements.sent == [UPDATE, LOG]


def test_losing_costs_an_update_and_a_look(user):
    job = Job.objects.get(pk=make_job(user, JobStatus.PROCESSING).pk)
    transition_status(job.pk, JobStatus.FAILED)
    job.complete()
    with Statements() as statements, pytest.raises(StaleJob):
        job.save()
    assert statements.sent == [UPDATE, SELECT]
