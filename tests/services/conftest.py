from contextlib import contextmanager

import pytest

from django_jobs.models import Asset, Job, JobTransition
from django_jobs.testing import make_job

OUR_WORKER = "host/machine/1/1/abcd"


@pytest.fixture
def nothing_written():
    """A context in which no row of ours may appear, change or go."""

    @contextmanager
    def watch():
        before = _rows()
        yield
        assert _rows() == before

    return watch


def _rows():
    return [list(model.objects.order_by("pk").values()) for model in (Job, JobTransition, Asset)]


@pytest.fixture
def held_job(user):
    """A job that one of our workers runs."""
    return make_job(user, "processing", worker=OUR_WORKER)


@pytest.fixture
def driven_job(user):
    """A job that something else than our workers runs."""
    return make_job(user, "processing")


@pytest.fixture
def postponed_job(user):
    """A job that waits between its first and its second attempt."""
    job = make_job(user, "processing", worker=OUR_WORKER, max_attempts=2)
    job.postpone(delay=60, code="handler_error", message="first try")
    job.save()
    return job
