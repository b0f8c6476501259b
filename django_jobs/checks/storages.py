"""Checks of the storage that holds the files of jobs: they are private."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.core.files.storage import Storage, storages

from django_jobs.checks.settings import given_settings
from django_jobs.services.files import root_of
from django_jobs.services.stored_assets import storage_alias

_HINT = (
    'Give STORAGES a "django_jobs" with a place of its own, say {"BACKEND": '
    '"django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": "/srv/job_files"}}.'
)


def check_storage(**_: Any) -> list[checks.CheckMessage]:
    """Look at where the files of jobs go; connect to nothing."""
    given = given_settings()
    if not isinstance(given, dict) or not isinstance(given.get("STORAGE", ""), str):
        return []  # that is told by others
    alias = storage_alias()
    try:
        storage = storages[alias]
        root = root_of(storage)
    except ImproperlyConfigured as error:
        return [_without_a_place(alias, error)]
    return [*_misspelt(given, alias), *_public(alias, storage, root)]


def _without_a_place(alias: str, error: Exception) -> checks.CheckMessage:
    return checks.Error(
        f"The storage {alias!r} cannot hold the files of jobs: {error}",
        hint="MEDIA_ROOT is not set; the files would lie among the source of the project. " + _HINT,
        id="django_jobs.E011",
    )


def _misspelt(given: dict[str, Any], alias: str) -> Iterator[checks.CheckMessage]:
    if given.get("STORAGE", alias) != alias:
        yield checks.Warning(
            f"DJANGO_JOBS['STORAGE'], {given['STORAGE']!r:.80}, is not in STORAGES.",
            hint=f"The files of jobs go to {alias!r} instead.",
            id="django_jobs.W010",
        )


def _public(alias: str, storage: Storage, root: Path | None) -> Iterator[checks.CheckMessage]:
    reason = _open_door(storage, root)
    if reason:
        yield checks.Warning(
            f"The files of jobs, in the storage {alias!r}, are public: {reason}.",
            hint="Whoever guesses an address gets the file, without a login. " + _HINT,
            id="django_jobs.W011",
        )


def _open_door(storage: Storage, root: Path | None) -> str:
    if root is None:
        is_unsigned = getattr(storage, "querystring_auth", True) is False
        return "its addresses are not signed (querystring_auth)" if is_unsigned else ""
    for name in ("MEDIA", "STATIC"):
        folder, address = getattr(settings, f"{name}_ROOT"), getattr(settings, f"{name}_URL")
        is_served = bool(folder) and address not in (None, "", "/")  # "/": it is not set
        if is_served and root.is_relative_to(Path(folder).resolve()):
            return f"they lie in {name}_ROOT, which is served under {name}_URL"
    return ""
