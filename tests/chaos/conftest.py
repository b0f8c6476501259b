"""Databases of our own, to be struck; and the books that must balance all the same."""

import contextlib
import os

import pytest
from django.conf import settings
from django.db import connections

from tests.cases.conftest import balanced_books, cluster, told  # noqa: F401
from tests.cases.proxy import Proxy
from tests.clusters.conftest import gate, jobs_for_workers, notes, waiting  # noqa: F401
from tests.servers import MariaDBServer, PostgresServer

SERVERS = {"postgres": PostgresServer, "mariadb": MariaDBServer}


@pytest.fixture(scope="session")
def server():
    """The server of this run's databases, for the tests and the processes they start.

    ``None`` on SQLite, which has none.
    """
    with contextlib.ExitStack() as stack:
        kind = SERVERS.get(settings.DATABASE)
        yield stack.enter_context(kind()) if kind else None


@pytest.fixture(scope="session")
def django_db_modify_db_settings(server, django_db_modify_db_settings_parallel_suffix):
    """Let Django make the test's databases on that server."""
    if server is None:
        return
    settings.URLS[settings.DATABASE] = server.url
    os.environ[Proxy.VARIABLES[settings.DATABASE]] = server.url
    for alias in connections:
        place = {"HOST": server.host, "PORT": str(server.port), "USER": server.superuser}
        connections[alias].settings_dict.update({**place, "PASSWORD": ""})


@pytest.fixture(autouse=True)
def is_on_its_own(request, server):
    """These tests strike the server they run on: it must not be anybody else's."""
    if server is not None:
        ports = {str(connections[alias].settings_dict["PORT"]) for alias in connections}
        assert ports == {str(server.port)}, "run tests/chaos alone"


@pytest.fixture(autouse=True)
def fresh_connection(balanced_books):  # noqa: F811
    """What a test did to its own connection is no concern of the books, or of the next test."""
    yield
    connections.close_all()
