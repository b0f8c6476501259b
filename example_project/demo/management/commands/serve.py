"""``manage.py serve``: the site and a cluster beside it, until Ctrl-C."""

import os
import secrets
import socket
from typing import Any

import uvicorn
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from example_project.demo.cluster import Cluster, ClusterError, exit_on_signals
from example_project.demo.users import LOGIN, demo_user
from example_project.sales.sample_data import ensure_sales

HOST = "127.0.0.1"
PASSWORD_VARIABLE = "DEMO_PASSWORD"  # noqa: S105 - the name of one


class Command(BaseCommand):
    help = (
        f"Serve the example project on {HOST}, with a cluster that runs its jobs, until Ctrl-C. "
        f"The password of the user {LOGIN} is taken from {PASSWORD_VARIABLE}, else made up."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8000)

    def handle(self, *args: Any, **options: Any) -> None:
        port = options["port"]
        _check_port(port)
        exit_on_signals()
        ensure_sales()
        password = os.environ.get(PASSWORD_VARIABLE) or secrets.token_urlsafe(9)
        demo_user(password)
        call_command("schedule_nightly", stdout=self.stdout)
        try:
            with Cluster() as cluster:
                self._show_addresses(port, password, cluster)
                uvicorn.run(
                    "example_project.asgi:application", host=HOST, port=port, log_level="warning"
                )
        except ClusterError as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            pass  # the usual end
        self.stdout.write(f"\nserver and cluster {cluster.pid} have stopped in order")

    def _show_addresses(self, port: int, password: str, cluster: Cluster) -> None:
        site = f"http://{HOST}:{port}"
        self.stdout.write(f"cluster {cluster.pid} is ready, its log is {cluster.log}")
        self.stdout.write(f"admin:   {site}/admin/django_jobs/job/")
        self.stdout.write(f"API:     {site}/api/jobs/")
        self.stdout.write(f"upload:  {site}/photos/")
        self.stdout.write(f"log in as {LOGIN} with the password {password}; Ctrl-C stops")
        self.stdout.flush()


def _check_port(port: int) -> None:
    """Say it before a cluster is started for nothing."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise CommandError(f"Port {port} is taken: choose another with --port.") from error
