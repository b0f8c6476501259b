"""How a race between the contestants may end."""

from django_jobs.models import JobStatus

LOST = {"StaleJob", "InvalidStateTransitionError"}


def is_consistent_end(row):
    """Say whether a row is COMPLETED with all that belongs to it, or FAILED, and no mixture."""
    end = {name: row[name] for name in ("progress", "result", "error_message", "failure_code")}
    if row["status"] == JobStatus.COMPLETED:
        return list(end.values()) == [100, {"rows": 3}, "", ""]
    return row["status"] == JobStatus.FAILED and list(end.values()) in (
        [30, None, "No disk.", "handler_error"],  # by save
        [0, None, "No disk.", "handler_error"],  # by service
    )
