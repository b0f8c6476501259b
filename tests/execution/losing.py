"""Databases that do what was asked and lose the reply."""

import contextlib
from unittest import mock

from django.db import OperationalError, connection


@contextlib.contextmanager
def reply_lost(at):
    """Let the ``at``-th commit (1 is the next one) happen, then raise as if the line had broken."""
    real, count = connection.commit, 0

    def commit():
        nonlocal count
        real()
        count += 1
        if count == at:
            raise OperationalError("server closed the connection unexpectedly")

    with mock.patch.object(connection, "commit", commit):
        yield


@contextlib.contextmanager
def commit_refused(*at):
    """Fail those commits (1 is the next one) before they happen."""
    real, count = connection.commit, 0

    def commit():
        nonlocal count
        count += 1
        if count in at:
            raise OperationalError("the server is gone")
        real()

    with mock.patch.object(connection, "commit", commit):
        yield
