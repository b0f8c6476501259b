"""``make latency``: how long one waits, and what an idle cluster costs, in one table.

idle to done: from the order of a no-op to the moment its outcome can be read, nothing else to do.
kill to verdict: from the SIGKILL of a busy worker to FAILED ``worker_lost`` in the row of its job.
SQL per minute: statements that reach PostgreSQL with nothing to do, transaction control apart.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.postgres import Postgres
from benchmarks.tables import print_table
from benchmarks.variants import WORKERS, Cluster, Variant, ours, plain

IDLE_JOBS = 30
KILLS = 5
IDLE_SECONDS = 60
QUICK = {"TICK": 1, "LEASE": 6, "GRACE": 2}
HEADINGS = ("", "median", "95 %", "worst", "of")


def main() -> None:
    begin = time.monotonic()
    with Postgres() as postgres, tempfile.TemporaryDirectory(prefix="django_jobs_bench_") as folder:
        print(f"PostgreSQL {postgres.version}, fsync on; SQLite with WAL; {WORKERS} workers")
        on_postgres = ours(postgres.create_database("ours"))
        on_sqlite = ours(sqlite(Path(folder) / "jobs.sqlite3"))
        theirs = plain(postgres.create_database("plain"))
        for variant in (on_postgres, on_sqlite, theirs):
            variant.migrate()
        rows = [*waits(on_postgres, on_sqlite, theirs), *verdicts(on_postgres)]
        costs = idle_costs(postgres, on_postgres, theirs)
    print_table("Waits", HEADINGS, rows)
    print_table("Idle cost", ("", "SQL per minute"), costs)
    print(f"\n{time.monotonic() - begin:.0f} s in all")


def sqlite(path: Path) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(path),
        "CONN_MAX_AGE": 600,
        "OPTIONS": {
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
        },
    }


def waits(on_postgres: Variant, on_sqlite: Variant, theirs: Variant) -> list[tuple[str, ...]]:
    rows = []
    for name, variant in (
        ("idle to done, PostgreSQL", on_postgres),
        ("idle to done, SQLite", on_sqlite),
        ("idle to done, django-q2 on PostgreSQL", theirs),
    ):
        with Cluster(variant):
            seconds = variant.drive("idle", IDLE_JOBS)
        rows.append(wait_row(name, seconds, 1000, "ms"))
    return rows


def verdicts(variant: Variant) -> list[tuple[str, ...]]:
    rows = []
    for tick, settings in ((5, {}), (1, QUICK)):
        variant.django_jobs = settings
        with Cluster(variant):
            seconds = variant.drive("kill", KILLS)
        rows.append(wait_row(f"kill to verdict, TICK {tick}", seconds, 1, "s"))
    variant.django_jobs = {}
    return rows


def idle_costs(postgres: Postgres, *variants: Variant) -> list[tuple[str, ...]]:
    """Let all clusters stand idle side by side for a minute."""
    with contextlib.ExitStack() as stack:
        for variant in variants:
            stack.enter_context(Cluster(variant))
        time.sleep(2)
        before = [postgres.statements(variant.database["NAME"]) for variant in variants]
        time.sleep(IDLE_SECONDS)
        after = [postgres.statements(variant.database["NAME"]) for variant in variants]
    per_minute = 60 / IDLE_SECONDS
    return [
        (f"idle cluster of {variant.name}", str(round((late - early) * per_minute)))
        for variant, early, late in zip(variants, before, after, strict=True)
    ]


def wait_row(name: str, seconds: list[float], factor: float, unit: str) -> tuple[str, ...]:
    ordered = sorted(value * factor for value in seconds)
    share = statistics.quantiles(ordered, n=20, method="inclusive")[-1]
    numbers = (f"{value:.1f} {unit}" for value in (statistics.median(ordered), share, ordered[-1]))
    return name, *numbers, str(len(ordered))


if __name__ == "__main__":
    main()
