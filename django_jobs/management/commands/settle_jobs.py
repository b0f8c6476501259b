"""``manage.py settle_jobs``: end or put back what nobody ends any more. By hand, or from cron."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from django_jobs.management.arguments import add_database
from django_jobs.models import Job, clock
from django_jobs.services.sweeping import settle_all


class Command(BaseCommand):
    help = (
        "End jobs, or put them back into the queue, whose workers are lost, that waited too long "
        "or were cancelled between attempts. Clusters do this by themselves while they run."
    )
    requires_system_checks = []  # it must work, quietly, when other things do not

    def add_arguments(self, parser: CommandParser) -> None:
        add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        ended = put_back = 0
        for job in settle_all(clock.alias_for_write(options["database"])):
            ended += job.is_terminal
            put_back += not job.is_terminal
            self.stdout.write(_line(job))
        self.stdout.write(f"settled: {ended} ended, {put_back} put back")


def _line(job: Job) -> str:
    step = job.transitions.order_by("id").last()
    code, message = (step.code, step.message) if step else ("", "")
    return f"{job.pk} {job.job_type}: {job.status}, {code}: {message}"
