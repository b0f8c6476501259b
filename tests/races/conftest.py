"""Fixtures of races."""

import pytest
from django.db import connection

from django_jobs.testing import make_job


@pytest.fixture
def jobs(user, monkeypatch):
    """Make jobs in a state, for processes that find the test's database."""
    monkeypatch.setenv("TEST_CONNECT_TO", str(connection.settings_dict["NAME"]))
    return lambda status, number=100: [make_job(user, status) for _ in range(number)]
