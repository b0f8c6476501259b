"""``manage.py prune_jobs``: delete what ended long ago, or find files that nobody refers to."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.files.storage import InvalidStorageError, storages
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Sum
from django.template.defaultfilters import filesizeformat

from django_jobs.conf import conf
from django_jobs.management.arguments import add_database, duration
from django_jobs.management.displays import counter_for
from django_jobs.models import Asset, clock
from django_jobs.services.files import remove, root_of
from django_jobs.services.orphans import find_orphans
from django_jobs.services.pruning import Pruned, prunable, prune_jobs
from django_jobs.services.stored_assets import storage_alias
from django_jobs.states import TERMINAL_STATES


class Command(BaseCommand):
    help = (
        "Delete jobs that ended long ago, with their logs, assets and files; live jobs are never "
        "touched. With --orphans: list the files of jobs that no asset refers to."
    )
    requires_system_checks = []  # from cron: warnings have their place elsewhere

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--older-than",
            type=duration,
            metavar="AGE",
            help="How long ago jobs must have ended: 30d, 12h, 90m. By default RETENTION_DAYS.",
        )
        parser.add_argument(
            "--status",
            action="append",
            choices=[str(status) for status in TERMINAL_STATES],
            help="Only jobs that ended so; may be given several times.",
        )
        parser.add_argument(
            "--job-type",
            action="append",
            metavar="TYPE",
            help="Only jobs of this type; may be given several times.",
        )
        parser.add_argument("--dry-run", action="store_true", help="Only say what would go.")
        parser.add_argument(
            "--orphans",
            action="store_true",
            help="List files without an asset instead; they go only with --delete.",
        )
        parser.add_argument("--delete", action="store_true", help="Delete the orphans.")
        parser.add_argument(
            "--storage", metavar="ALIAS", help="Storage of the orphans; by default STORAGE."
        )
        add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        _check_together(options)
        alias = clock.alias_for_write(options["database"])
        if options["orphans"]:
            self._orphans(options, alias)
        else:
            self._jobs(options, alias)

    def _jobs(self, options: dict[str, Any], alias: str) -> None:
        if options["older_than"] is None and conf.RETENTION_DAYS is None:
            raise CommandError(
                "Say how old: --older-than 30d, or set RETENTION_DAYS in DJANGO_JOBS."
            )
        wanted: dict[str, Any] = {
            "older_than": options["older_than"],
            "statuses": options["status"] or (),
            "job_types": options["job_type"] or (),
            "using": alias,
        }
        try:
            jobs = prunable(**wanted)
        except OverflowError as error:
            raise CommandError("--older-than: there was nothing so long ago.") from error
        if options["dry_run"]:
            self._say_what_would_go(jobs, alias)
            return
        with counter_for(self.stdout, "prune_jobs", jobs) as counter:
            pruned = prune_jobs(**wanted, on_batch=lambda total: counter.show(total.seen))
        self.stdout.write(_in_words("pruned", pruned))

    def _say_what_would_go(self, jobs: Any, alias: str) -> None:
        assets = Asset.objects.using(alias).filter(job__in=jobs)
        would = Pruned(jobs.count(), assets.count())
        size = filesizeformat(assets.aggregate(size=Sum("file_size"))["size"] or 0)
        self.stdout.write(f"{_in_words('would prune', would)} ({size})".replace("\xa0", " "))

    def _orphans(self, options: dict[str, Any], alias: str) -> None:
        storage = options["storage"] or storage_alias()
        _check_storage(storage)
        is_real = options["delete"] and not options["dry_run"]
        found = removed = 0
        for file in find_orphans(storage, alias):
            found += 1
            removed += is_real and remove(file)
            self.stdout.write(file.path)
        if not is_real:
            self.stdout.write(f"orphans in {storage}: {found}; --delete removes them")
            return
        self.stdout.write(f"orphans in {storage}: {found}, removed: {removed}")
        if removed < found:
            raise CommandError(f"{found - removed} could not be removed: the log says why.")


def _check_together(options: dict[str, Any]) -> None:
    for name in ("older_than", "status", "job_type"):
        if options["orphans"] and options[name] is not None:
            raise CommandError(f"--{name.replace('_', '-')} is about jobs, not about --orphans.")
    for name in ("delete", "storage"):
        if options[name] and not options["orphans"]:
            raise CommandError(f"--{name} goes with --orphans only.")


def _check_storage(alias: str) -> None:
    try:
        storage = storages[alias]
    except InvalidStorageError as error:
        raise CommandError(f"--storage: there is no {alias!r} in STORAGES.") from error
    try:
        root_of(storage)
        storage.listdir("")
    except FileNotFoundError:  # nothing was stored yet
        return
    except (NotImplementedError, ImproperlyConfigured) as error:
        raise CommandError(
            f"The files of the storage {alias!r} cannot be listed: {error}"
        ) from error


def _in_words(done: str, pruned: Pruned) -> str:
    kept = f"; kept, since something needs or holds them: {pruned.kept}" if pruned.kept else ""
    return f"{done}: {pruned.jobs} jobs, {pruned.assets} assets{kept}"
