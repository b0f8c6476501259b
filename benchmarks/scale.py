"""``make scale``: a million jobs in PostgreSQL, looked at, and pruned beside four workers."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
import time
from typing import Any

import psycopg

from benchmarks.postgres import APP, Postgres
from benchmarks.tables import print_table
from benchmarks.variants import OURS, ROOT, Cluster, Variant

JOBS = int(os.environ.get("SCALE_JOBS", "1000000"))
WORKERS = 4
PER_SECOND = 20  # jobs that are ordered meanwhile
DATABASE = "scale"
OLDEST_TRANSACTION = (
    "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0) "
    "FROM pg_stat_activity WHERE usename = %s"
)
ERRORS = "SELECT deadlocks, xact_rollback FROM pg_stat_database WHERE datname = %s"


def main() -> None:
    begin = time.monotonic()
    with Postgres() as postgres:
        print(f"PostgreSQL {postgres.version}, fsync on; {WORKERS} workers")
        cluster = {**OURS, "workers": WORKERS, "queue_limit": WORKERS}
        variant = Variant("django_jobs", postgres.create_database(DATABASE), cluster)
        variant.migrate()
        rows, seconds = _timed(lambda: _ask(variant, "load", JOBS))
        print(f"loaded in {seconds:.0f} s: {_counted(rows)}")
        looks = _ask(variant, "look", 0)
        print_table(
            "Looks",
            ("", "median", "queries"),
            [(name, f"{ms:.1f} ms", str(queries)) for name, (ms, queries) in looks.items()],
        )
        with Cluster(variant, "jobworker"):
            print_table("Retention beside workers", ("", ""), prune(postgres, variant))
    print(f"\n{time.monotonic() - begin:.0f} s in all")


def prune(postgres: Postgres, variant: Variant) -> list[tuple[str, str]]:
    work = _start(variant, "benchmarks.million", "work", str(PER_SECOND))
    watch = Watch(postgres)
    watch.start()
    before = watch.errors()
    output, seconds = _timed(
        lambda: variant.run("django", "prune_jobs", "--older-than", "30d", "--verbosity", "0")
    )
    watch.is_over.set()
    watch.join()
    after = watch.errors()
    told, _ = work.communicate("stop\n", timeout=120)
    done = json.loads(told)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(output.strip())
    return [
        ("time", f"{seconds:.0f} s"),
        ("jobs per second", f"{JOBS / seconds:.0f}"),
        ("largest process, of all that was run here", f"{peak:.0f} MB"),
        ("longest transaction, of workers too", f"{watch.longest:.2f} s"),
        ("deadlocks", str(after[0] - before[0])),
        ("rollbacks", str(after[1] - before[1])),
        ("jobs ordered meanwhile", str(done["ordered"])),
        ("of them COMPLETED", str(done["completed"])),
    ]


class Watch(threading.Thread):
    """Looks for the longest transaction of the app."""

    def __init__(self, postgres: Postgres) -> None:
        super().__init__(name="watch")
        self.longest = 0.0
        self.is_over = threading.Event()
        self._connection: psycopg.Connection[Any] = postgres.watch(DATABASE)

    def run(self) -> None:
        while not self.is_over.wait(0.05):
            self.longest = max(self.longest, float(self._value(OLDEST_TRANSACTION, APP)[0]))

    def errors(self) -> tuple[int, int]:
        deadlocks, rollbacks = self._value(ERRORS, DATABASE)
        return int(deadlocks), int(rollbacks)

    def _value(self, statement: str, parameter: str) -> Any:
        return self._connection.execute(statement, [parameter]).fetchone()  # type: ignore[call-overload]


def _ask(variant: Variant, task: str, number: int) -> Any:
    return json.loads(variant.run("benchmarks.million", task, str(number)))


def _start(variant: Variant, *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env=variant.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _timed(work: Any) -> tuple[Any, float]:
    begin = time.monotonic()
    return work(), time.monotonic() - begin


def _counted(rows: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in rows.items())


if __name__ == "__main__":
    main()
