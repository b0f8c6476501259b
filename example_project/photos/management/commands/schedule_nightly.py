"""``manage.py schedule_nightly``: let the clusters order the nightly job, every day at three."""

import datetime as dt
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand
from django.utils import timezone
from django_q.models import Schedule

from django_jobs.conf import conf

NAME = "nightly"
FUNCTION = "example_project.photos.schedules.order_nightly_job"
HOUR = 3


class Command(BaseCommand):
    help = (
        "Schedule the nightly job, and create the user who owns it. A second call changes nothing."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        user, created = get_user_model()._default_manager.get_or_create(username=conf.SYSTEM_USER)
        if created:
            user.set_unusable_password()
            user.save()
        schedule, _ = Schedule.objects.get_or_create(
            name=NAME,
            defaults={
                "func": FUNCTION,
                "schedule_type": Schedule.DAILY,
                "next_run": _next_night(),
            },
        )
        self.stdout.write(f"{schedule.func} runs next at {schedule.next_run:%Y-%m-%d %H:%M} UTC")


def _next_night() -> dt.datetime:
    tomorrow = timezone.localtime() + dt.timedelta(days=1)
    return tomorrow.replace(hour=HOUR, minute=0, second=0, microsecond=0)
