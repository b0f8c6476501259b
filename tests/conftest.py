"""Fixtures of the suite."""

import itertools

import pytest
from django.contrib.auth import get_user_model

from django_jobs.handlers import job_handler, register_job_type, registry

_numbers = itertools.count(1)


def create_user(**fields):
    """Create a user of whatever model the run has."""
    model = get_user_model()
    login = f"user{next(_numbers)}"
    if model.USERNAME_FIELD == "email":
        return model.objects.create_user(f"{login}@example.org", "secret", **fields)
    return model.objects.create_user(login, password="secret", **fields)


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
