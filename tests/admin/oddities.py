"""Rows that our own code does not write, but that somebody else's might."""

from contextlib import contextmanager

from django.db import connection

BROKEN = ("django_jobs_valid_status", "django_jobs_terminal_is_completed")


def give_unknown_status(job, status):
    """Write a status that nobody declared into the row of ``job``, behind the constraints."""
    with _without_constraints(), connection.cursor() as cursor:
        table = connection.ops.quote_name("django_jobs_job")
        key = type(job)._meta.pk.get_db_prep_value(job.pk, connection)
        cursor.execute(
            f"UPDATE {table} SET status = %s, failure_code = %s WHERE id = %s",
            [status, "odd_code", key],
        )


@contextmanager
def _without_constraints():
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":  # undone at the end of the test
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            for name in BROKEN:
                cursor.execute(f"ALTER TABLE django_jobs_job DROP CONSTRAINT {name}")
            yield
        elif connection.vendor == "mysql":
            cursor.execute("SET check_constraint_checks = 0")
            yield
            cursor.execute("SET check_constraint_checks = 1")
        else:
            cursor.execute("PRAGMA ignore_check_constraints = ON")
            yield
            cursor.execute("PRAGMA ignore_check_constraints = OFF")
