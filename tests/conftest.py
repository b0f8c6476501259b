"""Fixtures of the suite."""

import itertools

import pytest
from django.contrib.auth import get_user_model
from django.core.management.commands import flush

from django_jobs.handlers import job_handler, register_job_type, registry

_numbers = itertools.count(1)


def create_user(**fields):
    """Create a user of whatever model the run has."""
    model = get_user_model()
    login = f"user{next(_numbers)}"
    if model.USERNAME_FIELD == "email":
        return model.objects.create_user(f"{login}@example.org", "secret", **fields)
    return model.objects.create_user(login, password="secret", **fields)


@pytest.fixture(autouse=True, scope="session")
def quick_flush():
    """Empty the tables after a test without making content types and permissions anew each time.

    Django's own way takes the better part of a second on a server.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(flush, "sql_flush", _deletes)
        patched.setattr(flush, "emit_post_migrate_signal", lambda *args, **options: None)
        yield


def _deletes(style, connection, **options):
    tables = connection.introspection.django_table_names(only_existing=True, include_views=False)
    kept = {"auth_permission", "django_content_type"}
    deletes = [
        f"DELETE FROM {connection.ops.quote_name(table)}" for table in tables if table not in kept
    ]
    if connection.vendor == "mysql":
        return ["SET FOREIGN_KEY_CHECKS = 0", *deletes, "SET FOREIGN_KEY_CHECKS = 1"]
    return deletes


@pytest.fixture
def user(db):
    return create_user()


@pytest.fixture
def other_user(db):
    return create_user()


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    """What a test declares is forgotten after it."""
    monkeypatch.setattr(registry, "_types", dict(registry._types))


@pytest.fixture
def handler():
    """Declare a function as the handler of a new job type and return the name of the type."""

    def declare(function, name=None, **options):
        name = name or f"type-{next(_numbers)}"
        job_handler(name, **options)(function)
        return name

    return declare


@pytest.fixture
def external_type():
    """The name of a job type that something else than our workers drives."""
    return register_job_type(f"external-{next(_numbers)}").name
