import itertools

import pytest

from django_jobs.handlers import AUTHENTICATED, register_job_type
from tests.api.callers import Caller, create_staff

_numbers = itertools.count(1)


@pytest.fixture
def me(user):
    """The caller whose objects are asked for."""
    return Caller(user)


@pytest.fixture
def stranger(other_user):
    return Caller(other_user)


@pytest.fixture
def viewer(db):
    """Staff who may see the jobs of others."""
    return Caller(create_staff("view_job"))


@pytest.fixture
def open_type():
    """The name of a job type that whoever is logged in may start."""
    return register_job_type(f"open-{next(_numbers)}", permission=AUTHENTICATED).name
