"""``manage.py demo``: two real jobs, run by a real cluster and watched from outside."""

import signal
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from rich.console import Console

from django_jobs.models import Job, JobStatus
from django_jobs.services import create_job
from example_project.demo.cluster import Cluster, ClusterError, exit_on_signals
from example_project.demo.users import demo_user
from example_project.demo.watching import show_outcome, watch
from example_project.sales.sample_data import ensure_sales

INTERRUPTED = 128 + signal.SIGINT
PLAIN_WIDTH = 120  # characters, where the output is no terminal


class Command(BaseCommand):
    help = "Start a cluster, let it do two jobs, show what became of them, stop it."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.ending = ""  # rich ends its lines itself
        self.console = Console(
            file=self.stdout,
            width=None if self.stdout.isatty() else PLAIN_WIDTH,
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        exit_on_signals()
        ensure_sales()
        thumbnails, export = self._run_in_a_cluster()
        for job in (thumbnails, export):
            show_outcome(self.console, job)
        self.console.print(f"demo: {_thumbnails_summary(thumbnails)}; {_export_summary(export)}")
        if JobStatus.FAILED in (thumbnails.status, export.status):
            raise CommandError("A job failed.")

    def _run_in_a_cluster(self) -> list[Job]:
        try:
            with Cluster() as cluster:
                self.console.print(f"cluster {cluster.pid} is ready, its log is {cluster.log}")
                jobs = [self._run("thumbnails", {"size": 320}), self._run("csv_export", {})]
        except ClusterError as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            raise CommandError("Interrupted.", returncode=INTERRUPTED) from None
        self.console.print(f"cluster {cluster.pid} has stopped in order")
        return jobs

    def _run(self, job_type: str, parameters: dict[str, Any]) -> Job:
        job = create_job(demo_user(), job_type, parameters)
        self.console.print(f"job {job.pk}")
        return watch(self.console, job.pk)


def _thumbnails_summary(job: Job) -> str:
    return f"{job.job_type} {job.status.upper()} {job.items_succeeded} ok {job.items_failed} failed"


def _export_summary(job: Job) -> str:
    rows = job.result["rows"] if job.result else 0
    return f"{job.job_type} {job.status.upper()} {rows} rows"
