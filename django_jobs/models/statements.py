"""The statements of a step, put together without the ORM's compiler: it costs more than they do.

Values go through the fields, so each database gets what it wants; guards are those of the protocol.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connections, models


def guarded_update(
    model: type[models.Model],
    alias: str,
    key: uuid.UUID,
    changes: Mapping[str, Any],
    expected: Mapping[str, Any],
) -> bool:
    """Update the row with ``key`` if its columns are as ``expected``; say whether it was.

    ``version`` in ``changes`` means one more; a tuple in ``expected`` means one of these.
    """
    connection = connections[alias]
    quote = connection.ops.quote_name
    assignments, parameters = [], []
    for name, value in changes.items():
        if name == "version":
            assignments.append(f"{quote('version')} = {quote('version')} + 1")
        else:
            assignments.append(f"{quote(name)} = %s")
            parameters.append(_prepared(model, name, value, connection))
    conditions = [_condition(model, name, expected[name], connection) for name in expected]
    guard = " AND ".join(text for text, _ in conditions) or "1 = 1"
    if connection.vendor == "mysql":
        # the rule, and why, is that of JobQuerySet.unchanged
        guard = f"CASE WHEN {guard} THEN 1 ELSE 0 END = 1"
    parameters.append(_prepared(model, "id", key, connection))
    for _, values in conditions:
        parameters.extend(values)
    statement = (
        f"UPDATE {quote(model._meta.db_table)} SET {', '.join(assignments)} "  # noqa: S608
        f"WHERE {quote('id')} = %s AND {guard}"
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return bool(cursor.rowcount > 0)


def insert(alias: str, rows: Sequence[models.Model]) -> None:
    """Insert ``rows``, all of one model, with one statement."""
    connection = connections[alias]
    model = type(rows[0])
    names = [field.attname for field in model._meta.concrete_fields]
    one = f"({', '.join(['%s'] * len(names))})"
    statement = (
        f"INSERT INTO {connection.ops.quote_name(model._meta.db_table)} "  # noqa: S608
        f"({', '.join(connection.ops.quote_name(name) for name in names)}) "
        f"VALUES {', '.join([one] * len(rows))}"
    )
    parameters = [
        _prepared(model, name, getattr(row, name), connection) for row in rows for name in names
    ]
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
    for row in rows:
        row._state.adding, row._state.db = False, alias


def _condition(
    model: type[models.Model], name: str, value: Any, connection: Any
) -> tuple[str, list[Any]]:
    column = connection.ops.quote_name(name)
    if value is None:
        return f"{column} IS NULL", []
    if isinstance(value, tuple):
        places = ", ".join(["%s"] * len(value))
        return f"{column} IN ({places})", [_prepared(model, name, v, connection) for v in value]
    return f"{column} = %s", [_prepared(model, name, value, connection)]


def _prepared(model: type[models.Model], name: str, value: Any, connection: Any) -> Any:
    if hasattr(value, "resolve_expression"):
        raise TypeError(f"{name}: an expression cannot be saved on a job; use update()")
    prepared = _fields(model)[name].get_db_prep_save(value, connection)
    return str(prepared) if isinstance(prepared, str) else prepared  # an enum's member: its value


@functools.cache
def _fields(model: type[models.Model]) -> dict[str, Any]:
    return {field.attname: field for field in model._meta.concrete_fields}
