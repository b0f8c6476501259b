"""Very many jobs, quickly: copies of one, made by the database itself."""

from django.db import connection

from django_jobs.models import Asset, Job, JobTransition

#: Numbers 1 to ``count``, as ``number.n``.
NUMBERS = {
    "postgresql": "generate_series(1, {count}) AS number(n)",
    "mysql": "(SELECT seq AS n FROM seq_1_to_{count}) AS number",
}
#: A moment in milliseconds, in 12 hexadecimal digits.
STAMP = "lpad(to_hex((extract(epoch from {moment}) * 1000)::bigint), 12, '0')"
#: A new key; on PostgreSQL one that sorts by a moment, as ours do.
KEY = {
    "postgresql": (
        f"(overlay({STAMP} placing '-' from 9 for 0) || '-7' || "
        "substr(gen_random_uuid()::text, 16))::uuid"
    ),
    "mysql": "UUID()",
}


def multiply(job, count, **changes):
    """Make ``count`` copies of ``job``, each with its log and assets.

    ``changes`` are SQL expressions for columns of the copies, in which ``number.n`` counts them.
    """
    table = Job._meta.db_table
    numbers = NUMBERS[connection.vendor].format(count=count)
    values = {"id": _key(changes.get("created_at", "created_at")), **changes}
    with connection.cursor() as cursor:
        source = f"{table}, {numbers} WHERE {table}.id = %s"
        cursor.execute(_insert(Job, values, source), [_parameter(job.pk)])
        for model in (JobTransition, Asset):
            for place, row in enumerate(model.objects.filter(job=job).order_by("id")):
                _copy_to_twins(cursor, row, place, job)


def _copy_to_twins(cursor, row, place, job):
    """Give a line of the log, or an asset, to all jobs of the same type and status."""
    moment = f"twin.created_at + interval '{place}' second"
    owned = {"job_id": "twin.id", "user_id": "twin.user_id"}
    values = {"id": _key(moment), "created_at": moment, **owned}
    source = (
        f"{Job._meta.db_table} twin, {type(row)._meta.db_table} original WHERE original.id = %s "
        "AND twin.id <> %s AND twin.job_type = %s AND twin.status = %s"
    )
    parameters = [_parameter(row.pk), _parameter(job.pk), job.job_type, job.status]
    cursor.execute(_insert(type(row), values, source, "original."), parameters)


def _insert(model, values, source, prefix=""):
    """Return an INSERT of rows from ``source``; the columns that have no value are copied."""
    fields = [field for field in model._meta.concrete_fields if not field.generated]
    columns = {field.column: values.get(field.column, prefix + field.column) for field in fields}
    return (
        f"INSERT INTO {model._meta.db_table} ({', '.join(columns)}) "
        f"SELECT {', '.join(columns.values())} FROM {source}"
    )


def _key(moment):
    return KEY[connection.vendor].format(moment=moment)


def _parameter(key):
    return key if connection.features.has_native_uuid_field else key.hex
