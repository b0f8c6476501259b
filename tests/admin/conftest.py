"""Staff with permissions, and the addresses of the admin."""

import pytest
from django.contrib.auth.models import Permission
from django.contrib.messages import get_messages
from django.urls import reverse

from tests.conftest import create_user


def address(name, *args):
    return reverse(f"admin:django_jobs_{name}", args=args)


def messages_of(response):
    """The messages that a request left, as texts."""
    return [str(message) for message in get_messages(response.wsgi_request)]


def create_staff(*codenames):
    staff = create_user(is_staff=True)
    wanted = Permission.objects.filter(
        content_type__app_label="django_jobs", codename__in=codenames
    )
    assert wanted.count() == len(codenames)
    staff.user_permissions.set(wanted)
    return staff


@pytest.fixture
def staff(db):
    """Create a member of staff with these permissions."""
    return create_staff


@pytest.fixture
def admin(db):
    return create_user(is_staff=True, is_superuser=True)


@pytest.fixture
def as_staff(client):
    """Log a new member of staff with these permissions in; return the client."""

    def log_in(*codenames):
        client.force_login(create_staff(*codenames))
        return client

    return log_in


@pytest.fixture
def as_admin(client, admin):
    client.force_login(admin)
    return client
