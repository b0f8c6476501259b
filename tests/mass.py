"""Very many jobs, quickly: copies of one made by the database itself."""

from django.db import connection

from django_jobs.models import Asset, Job, JobTransition

NEW_KEY = {"postgresql": "gen_random_uuid()", "mysql": "UUID()"}


def multiply(job, count):
    """Make ``count`` jobs out of ``job``, itself among them, each with its log and assets.

    Their keys are random: they do not sort by age.
    """
    new_key = NEW_KEY[connection.vendor]
    table, columns = _of(Job)
    with connection.cursor() as cursor:
        there = Job.objects.count()
        while there < count:
            cursor.execute(
                f"INSERT INTO {table} (id, {columns}) SELECT {new_key}, {columns} FROM {table} "
                f"LIMIT {min(there, count - there)}"
            )
            there = Job.objects.count()
        for model in (JobTransition, Asset):
            _copy_to_all(cursor, model, job)


def _copy_to_all(cursor, model, job):
    table, columns = _of(model, but={"job_id"})
    jobs, _ = _of(Job)
    originals = ", ".join(f"original.{column}" for column in columns.split(", "))
    cursor.execute(
        f"INSERT INTO {table} (id, job_id, {columns}) "
        f"SELECT {NEW_KEY[connection.vendor]}, twin.id, {originals} "
        f"FROM {jobs} twin, {table} original "
        "WHERE original.job_id = %s AND twin.id <> %s",
        [_parameter(job.pk)] * 2,
    )


def _parameter(key):
    return key if connection.features.has_native_uuid_field else key.hex


def _of(model, but=frozenset()):
    """Return table and columns of a model, quoted; without its key and what the database makes."""
    quote = connection.ops.quote_name
    columns = [
        quote(field.column)
        for field in model._meta.concrete_fields
        if not (field.primary_key or field.generated or field.column in but)
    ]
    return quote(model._meta.db_table), ", ".join(columns)
