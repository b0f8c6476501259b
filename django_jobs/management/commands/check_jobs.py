"""``manage.py check_jobs``: is due work taken up, and does all that started come to its end?"""

import dataclasses
import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.core.serializers.json import DjangoJSONEncoder

from django_jobs.management.arguments import add_database
from django_jobs.services.health import LATE, Health, check_health


class Command(BaseCommand):
    help = "Say how the jobs are; exit 1 if some are overdue or due work is not taken up."
    requires_system_checks = []  # it must answer when other things are wrong

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="Print one JSON object.")
        parser.add_argument(
            "--late",
            type=float,
            default=LATE,
            metavar="SECONDS",
            help=f"How long due work may wait for a worker ({LATE:g} by default).",
        )
        add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        health = check_health(options["database"], late=options["late"])
        if options["json"]:
            self.stdout.write(json.dumps(_as_dict(health), cls=DjangoJSONEncoder))
        else:
            self._print(health)
        if not health.is_well:
            raise SystemExit(1)

    def _print(self, health: Health) -> None:
        waits = f" (the oldest for {health.oldest_wait:.0f} s)" if health.due else ""
        self.stdout.write(f"due:     {health.due}{waits}")
        self.stdout.write(f"running: {health.running}")
        self.stdout.write(f"overdue: {health.overdue}")
        for job_id in health.overdue_ids:
            self.stdout.write(f"  {job_id}")
        if health.overdue > len(health.overdue_ids):
            self.stdout.write(f"  and {health.overdue - len(health.overdue_ids)} more")
        for problem in health.problems:
            self.stdout.write(self.style.ERROR(problem))
        if health.is_well:
            self.stdout.write(self.style.SUCCESS("All is well."))


def _as_dict(health: Health) -> dict[str, Any]:
    return {
        "is_well": health.is_well,
        **dataclasses.asdict(health),
        "is_consumed": health.is_consumed,
        "problems": health.problems,
    }
