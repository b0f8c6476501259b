"""``manage.py job_types``: which types of job this project has."""

import json
import os
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from django_jobs.handlers import JobType, registry

HEADINGS = ("name", "queue", "timeout", "attempts", "permission", "driven by", "parameters", "at")


class Command(BaseCommand):
    help = "List the types of job: options, parameters (optional ones with a ?), and their place."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="Print a JSON array.")

    def handle(self, *args: Any, **options: Any) -> None:
        types = [_as_dict(known) for known in registry]
        if options["json"]:
            self.stdout.write(json.dumps(types))
            return
        rows = [HEADINGS, *(_row(described) for described in types)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
        for row in rows:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            self.stdout.write("  ".join(cells).rstrip())


def _as_dict(known: JobType) -> dict[str, Any]:
    return {
        "name": known.name,
        "title": known.title,
        "description": known.description,
        "queue": known.queue,
        "timeout": known.timeout,
        "queue_timeout": known.queue_timeout,
        "max_attempts": known.max_attempts,
        "retry_delay": known.retry_delay,
        "max_active_per_user": known.max_active_per_user,
        "permission": _permission(known.permission),
        "is_external": known.is_external,
        "parameters": _fields(known),
        "place": known.place,
    }


def _permission(permission: Any) -> str:
    """Return a codename as it is, a callable by its name."""
    if isinstance(permission, str) or not callable(permission):
        return str(permission)
    return f"{getattr(permission, '__qualname__', type(permission).__name__)}()"


def _fields(known: JobType) -> list[dict[str, Any]] | None:
    """Return the fields that a client gives; ``None`` if any parameters are taken."""
    if known.parameters is None:
        return None
    return [
        {"name": name, "type": type(field).__name__, "required": field.required}
        for name, field in known.parameters().fields.items()
        if not field.read_only and type(field).__name__ != "HiddenField"
    ]


def _row(described: dict[str, Any]) -> tuple[str, ...]:
    timeout, fields = described["timeout"], described["parameters"]
    names = (f"{field['name']}{'' if field['required'] else '?'}" for field in fields or ())
    return (
        described["name"],
        described["queue"],
        "none" if timeout is None else f"{timeout:g} s",
        str(described["max_attempts"]),
        described["permission"],
        "something else" if described["is_external"] else "our workers",
        "any" if fields is None else ", ".join(names) or "none",
        _from_here(described["place"]),
    )


def _from_here(place: str) -> str:
    path, _, line = place.rpartition(":")
    inside = Path(path).is_relative_to(Path.cwd())
    return f"{os.path.relpath(path)}:{line}" if inside else place
