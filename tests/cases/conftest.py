"""Fixtures of the cases: real clusters, and the books that must balance after each case."""

import contextlib

import pytest

from django_jobs.services import create_job
from tests.cases import books
from tests.clusters.conftest import gate, jobs_for_workers, notes, waiting  # noqa: F401
from tests.clusters.processes import Cluster, wait_for
from tests.races.conftest import jobs  # noqa: F401


@pytest.fixture(autouse=True)
def balanced_books(transactional_db, jobs_for_workers, notes):  # noqa: F811
    """Hold every case to what is true of all jobs at all times."""
    books.open_books()
    yield
    books.check_books(notes)


@pytest.fixture
def cluster(tmp_path, user):
    """Start a cluster; whatever the case does to it, it completes a trivial job afterwards."""

    @contextlib.contextmanager
    def start(**options):
        with Cluster(tmp_path, **options) as running:
            yield running
            trivial = create_job(user, "noop", priority=100)
            done = wait_for(lambda: books.ended(trivial), what="a trivial job is done")
            assert done.status == "completed", running.output()

    return start


@pytest.fixture
def told(tmp_path):
    """The file in which handlers tell what came of what they did."""
    return tmp_path / "told"
