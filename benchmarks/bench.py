"""``make bench``: our no-op jobs against plain django-q2 tasks on its ORM broker.

Both on one PostgreSQL server of their own (fsync on), with two workers each, in interleaved rounds.
All work is ordered while the cluster stands still (SIGSTOP); drained is the time from SIGCONT until
the last outcome is in the database and the queue is empty.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field

import django_q

import django_jobs
from benchmarks.postgres import Postgres
from benchmarks.tables import print_table
from benchmarks.variants import WORKERS, Cluster, Variant, ours, plain

JOBS = 2000
ROUNDS = 3
IDLE_JOBS = 10  # in each round
PATIENCE = 120  # seconds for all jobs of a round
TABLES = {
    True: ("django_jobs_job, django_jobs_jobtransition, django_jobs_asset",),
    False: ("django_q_ormq, django_q_task",),
}
#: What is left to do, and what is done.
COUNTS = {
    True: (
        "SELECT count(*) FILTER (WHERE status IN ('queued', 'processing')),"
        " count(*) FILTER (WHERE status = 'completed') FROM django_jobs_job"
    ),
    False: (
        "SELECT (SELECT count(*) FROM django_q_ormq),"
        " (SELECT count(*) FROM django_q_task WHERE success)"
    ),
}


@dataclass
class Results:
    """Of all rounds of one variant; seconds, or numbers for each job."""

    create: list[float] = field(default_factory=list)
    drain: list[float] = field(default_factory=list)
    idle: list[float] = field(default_factory=list)
    create_sql: list[float] = field(default_factory=list)
    create_commits: list[float] = field(default_factory=list)
    drain_sql: list[float] = field(default_factory=list)
    drain_commits: list[float] = field(default_factory=list)


def main() -> None:
    begin = time.monotonic()
    with Postgres() as postgres:
        variants = [
            ours(postgres.create_database("ours")),
            plain(postgres.create_database("plain")),
        ]
        results = {variant.name: Results() for variant in variants}
        print(
            f"PostgreSQL {postgres.version}, fsync on; django_jobs {django_jobs.__version__},"
            f" django-q2 {'.'.join(map(str, django_q.VERSION))} (save_limit 0);"
            f" {WORKERS} workers, {JOBS} no-op jobs, {ROUNDS} interleaved rounds"
        )
        for variant in variants:
            variant.migrate()
        for number in range(ROUNDS):
            for variant in variants if number % 2 else reversed(variants):
                run_round(variant, postgres, results[variant.name])
                print_round(number, variant, results[variant.name])
    print_results(results["django_jobs"], results["django-q2"])
    print(f"\n{time.monotonic() - begin:.0f} s in all")


def run_round(variant: Variant, postgres: Postgres, results: Results) -> None:
    database = variant.database["NAME"]
    with Cluster(variant) as cluster, postgres.watch(database) as watcher:
        cluster.pause()
        watcher.execute(f"TRUNCATE {TABLES[variant.is_ours][0]}")  # type: ignore[call-overload]
        postgres.execute("CHECKPOINT")
        sql, commits = postgres.statements(database), postgres.write_transactions()
        results.create.append(variant.drive("create", JOBS))
        created_sql, created_commits = (
            postgres.statements(database),
            postgres.write_transactions(),
        )
        results.create_sql.append((created_sql - sql) / JOBS)
        results.create_commits.append((created_commits - commits) / JOBS)
        postgres.execute("CHECKPOINT")
        results.drain.append(drain(variant, cluster, watcher))
        results.drain_sql.append((postgres.statements(database) - created_sql) / JOBS)
        results.drain_commits.append((postgres.write_transactions() - created_commits) / JOBS)
        results.idle += variant.drive("idle", IDLE_JOBS)


def drain(variant: Variant, cluster: Cluster, watcher: object) -> float:
    """Let the cluster go on, and return the seconds until everything is done."""
    begin = time.perf_counter()
    cluster.resume()
    while time.perf_counter() - begin < PATIENCE:
        left, done = watcher.execute(COUNTS[variant.is_ours]).fetchone()  # type: ignore[attr-defined]
        if left == 0 and done == JOBS:
            return time.perf_counter() - begin
        time.sleep(0.02)
    raise SystemExit(f"{variant.name}: {left} left and {done} done after {PATIENCE} s")


def print_round(number: int, variant: Variant, results: Results) -> None:
    print(
        f"round {number + 1}: {variant.name:12} created {JOBS / results.create[-1]:6.0f}/s,"
        f" drained {JOBS / results.drain[-1]:6.0f}/s"
    )


def print_results(mine: Results, theirs: Results) -> None:
    rows = [
        _row("created per second", _rates(mine.create), _rates(theirs.create), ".0f"),
        _row("drained per second", _rates(mine.drain), _rates(theirs.drain), ".0f"),
        _row("idle to done, ms", _milliseconds(mine.idle), _milliseconds(theirs.idle), ".1f"),
        _row("SQL per created job", mine.create_sql, theirs.create_sql, ".2f"),
        _row("commits per created job", mine.create_commits, theirs.create_commits, ".2f"),
        _row("SQL per drained job", mine.drain_sql, theirs.drain_sql, ".2f"),
        _row("commits per drained job", mine.drain_commits, theirs.drain_commits, ".2f"),
    ]
    headings = ("medians", "django_jobs", "django-q2", "ours / theirs")
    print_table("Our jobs against django-q2's tasks", headings, rows)


def _rates(seconds: list[float]) -> list[float]:
    return [JOBS / value for value in seconds]


def _milliseconds(seconds: list[float]) -> list[float]:
    return [value * 1000 for value in seconds]


def _row(name: str, mine: list[float], theirs: list[float], form: str) -> tuple[str, ...]:
    ours, other = statistics.median(mine), statistics.median(theirs)
    ratio = f"{ours / other:.2f}" if other else "-"
    return name, format(ours, form), format(other, form), ratio


if __name__ == "__main__":
    main()
