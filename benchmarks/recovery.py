"""``make recovery``: how soon things go on after a SIGKILL, in one table.

idle worker: from the SIGKILL of a worker with nothing to do to the end of the next job.
busy worker: from the SIGKILL of a worker in mid-job to FAILED ``worker_lost`` in its row.
guard, main: from the SIGKILL of the process that guards the workers, or of the cluster's first, to
the end of the next job; not under plain ``qcluster``, where nobody starts another cluster.
"""

from __future__ import annotations

import time

from benchmarks.latency import HEADINGS, QUICK, wait_row
from benchmarks.postgres import Postgres
from benchmarks.tables import print_table
from benchmarks.variants import WORKERS, Cluster, ours

KILLS = 20
ABOVE = ("guard", "main")


def main() -> None:
    begin = time.monotonic()
    rows = []
    with Postgres() as postgres:
        print(f"PostgreSQL {postgres.version}, fsync on; {WORKERS} workers; TICK 1")
        variant = ours(postgres.create_database("ours"), **QUICK)
        variant.migrate()
        for command in ("jobworker", "qcluster"):
            with Cluster(variant, command):
                idle = variant.drive("kill-idle", KILLS)
                busy = variant.drive("kill", KILLS)
                above = [variant.drive(f"kill-{who}", 5) for who in ABOVE if command == "jobworker"]
            rows.append(wait_row(f"idle worker killed, {command}", idle, 1, "s"))
            rows.append(wait_row(f"busy worker killed, {command}", busy, 1, "s"))
            rows += [
                wait_row(f"{who} killed, {command}", waits, 1, "s")
                for who, waits in zip(ABOVE, above, strict=False)
            ]
    print_table("Recovery", HEADINGS, rows)
    print(f"\n{time.monotonic() - begin:.0f} s in all")


if __name__ == "__main__":
    main()
