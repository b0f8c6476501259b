"""Fixtures of tests with real clusters."""

import pytest

from tests.clusters.processes import FAST


@pytest.fixture(autouse=True)
def jobs_for_workers(settings):
    """What the test creates is left to the cluster's workers."""
    settings.DJANGO_JOBS = FAST


@pytest.fixture
def notes(tmp_path):
    """The file in which handlers note that their bodies were entered."""
    return tmp_path / "entries"


@pytest.fixture
def gate(tmp_path):
    """The file whose appearance lets waiting handlers go on."""
    return tmp_path / "gate"


@pytest.fixture
def waiting(notes, gate):
    """The parameters of a job that waits for the gate."""
    return {"entries": str(notes), "until": str(gate)}
