"""What the clock orders: django-q2 calls these functions by their dotted names."""

from django.contrib.auth import get_user_model
from django.utils import timezone

from django_jobs.conf import conf
from django_jobs.services import create_job


def order_nightly_job() -> str:
    """Order the job of this night for the ``SYSTEM_USER``, and return its id.

    django-q2 may call it twice; the key makes one job of both calls.
    """
    owner = get_user_model()._default_manager.get_by_natural_key(conf.SYSTEM_USER)
    key = f"prune_uploads {timezone.localdate()}"
    return str(create_job(owner, "prune_uploads", idempotency_key=key).pk)
