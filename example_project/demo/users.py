"""The user of the demo."""

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser

LOGIN = "demo"


def demo_user(password: str | None = None) -> AbstractUser:
    """Return the superuser of the demo; without ``password`` nobody can log in as a new one."""
    user, created = get_user_model()._default_manager.get_or_create(username=LOGIN)
    user.is_staff = user.is_superuser = True
    if password is not None or created:
        user.set_password(password)
    user.save()
    return user
