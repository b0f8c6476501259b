"""What the tables hold, to be compared before and after; and what statements were sent."""

import re
from contextlib import contextmanager

from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

from django_jobs.models import Job, JobTransition

_ABOUT_TRANSACTIONS = {"BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "SET"}


def row_of(job):
    """Return the whole row of ``job`` as a dict."""
    return Job.objects.filter(pk=job.pk).values().get()


def log_of(job):
    """Return the whole log of ``job`` as dicts, oldest first."""
    return list(JobTransition.objects.filter(job_id=job.pk).order_by("id").values())


def stored(job):
    """Return row and log of ``job``."""
    return row_of(job), log_of(job)


def steps_of(job):
    """Return the states that the log of ``job`` leads through."""
    return [entry["to_status"] for entry in log_of(job)]


@contextmanager
def log_refused():
    """Let no line of the log be written: ``ZeroDivisionError``, as from a driver."""

    def refuse(execute, sql, *args):
        if sql.startswith("INSERT") and JobTransition._meta.db_table in sql:
            raise ZeroDivisionError
        return execute(sql, *args)

    with connection.execute_wrapper(refuse):
        yield


class Statements(CaptureQueriesContext):
    """Collects the SQL that a block sends, statements about transactions left out."""

    def __init__(self, alias="default"):
        super().__init__(connections[alias])

    def __enter__(self):
        self.connection.queries_log.clear()  # it keeps 9,000 queries of all tests, and no more
        return super().__enter__()

    @property
    def sent(self):
        """The statements, shortened to verb and table: ``UPDATE django_jobs_job``."""
        sql = (query["sql"].lstrip("( ") for query in self.captured_queries)
        return [_in_short(text) for text in sql if text.split()[0] not in _ABOUT_TRANSACTIONS]


def _in_short(sql):
    table = re.search(r"(?:FROM|INTO|UPDATE)\s+[`\"]?(\w+)", sql)
    return f"{sql.split()[0]} {table.group(1) if table else ''}".strip()
