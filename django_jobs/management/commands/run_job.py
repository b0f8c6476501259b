"""``manage.py run_job``: order a job from the command line, and wait for its outcome if asked."""

import contextlib
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from django_jobs.exceptions import (
    InvalidParameters,
    InvalidStateTransitionError,
    JobNotFound,
    JobsError,
)
from django_jobs.management.arguments import json_object, readable_errors, user_named
from django_jobs.management.displays import display_for
from django_jobs.management.outcomes import EXIT_CODES, outcome_lines
from django_jobs.management.watching import is_answered_yes, watch
from django_jobs.models import Job
from django_jobs.services import cancel_job, create_job

INTERRUPTED = 130  # as shells say it of Ctrl-C


class Command(BaseCommand):
    help = (
        "Order a job for a user and print its id. With --wait, watch it to its outcome: exit 0 if "
        "it is COMPLETED, 3 if PARTIAL, 1 if FAILED. Ctrl-C then asks whether to cancel it."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("job_type", metavar="TYPE")
        parser.add_argument(
            "--user", required=True, metavar="LOGIN_OR_KEY", help="Whose job it is to be."
        )
        parser.add_argument("--parameters", default="{}", metavar="JSON", help="A JSON object.")
        parser.add_argument("--queue", help="Another queue than that of the type.")
        parser.add_argument("--priority", type=int, default=0, help="-100 to 100, higher first.")
        parser.add_argument("--wait", action="store_true", help="Wait for the outcome.")

    def handle(self, *args: Any, **options: Any) -> None:
        user = user_named(options["user"])
        job = _order(user, options)
        self.stdout.write(str(job.pk))
        self.stdout.flush()
        if options["wait"]:
            self._wait(job, user)

    def _wait(self, job: Job, user: Any) -> None:
        job = self._outcome(job, user)
        for line in outcome_lines(job):
            self.stdout.write(line)
        if code := EXIT_CODES[job.status]:
            raise SystemExit(code)

    def _outcome(self, job: Job, user: Any) -> Job:
        while True:
            try:
                return watch(job.pk, display_for(self.stdout, job.job_type))
            except KeyboardInterrupt:
                if not is_answered_yes("Cancel the job?", self.stderr):
                    self.stdout.write(f"The job goes on: {job.pk}")
                    raise SystemExit(INTERRUPTED) from None
            except JobNotFound as error:
                raise CommandError(str(error)) from error
            with contextlib.suppress(InvalidStateTransitionError):  # it has ended meanwhile
                cancel_job(job.pk, actor=user, reason="interrupted on the command line")


def _order(user: Any, options: dict[str, Any]) -> Job:
    parameters = json_object(options["parameters"])
    try:
        return create_job(
            user,
            options["job_type"],
            parameters,
            queue=options["queue"],
            priority=options["priority"],
        )
    except InvalidParameters as error:
        lines = "\n".join(f"  {line}" for line in readable_errors(error.errors))
        raise CommandError(f"The parameters are not valid:\n{lines}") from error
    except (JobsError, ValueError) as error:
        raise CommandError(str(error)) from error
