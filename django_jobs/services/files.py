"""The files behind assets: one goes when no asset refers to it any more, and only then.

Whatever deletes an asset (a job or a user that it goes with, a queryset, the admin, pruning), the
receiver below hears of it, and after the commit the file is removed. What a crash, an outage of the
storage or a rollback leaves behind is found by ``manage.py prune_jobs --orphans``.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured, SuspiciousFileOperation
from django.core.files.storage import InMemoryStorage, Storage, storages
from django.db import Error, connections, transaction
from django.db.models.signals import post_delete

from django_jobs.models import Asset
from django_jobs.models.asset import PATH_START
from django_jobs.services.layout import job_of

logger = logging.getLogger(__name__)
LOOKED_UP = 300  # files in one query


@dataclass(frozen=True)
class StoredFile:
    """A file in a storage of ours. ``job_id`` is for the log."""

    storage: str
    path: str
    job_id: uuid.UUID

    @classmethod
    def of(cls, asset: Asset) -> StoredFile:
        return cls(asset.storage, asset.storage_path, asset.job_id)

    def __bool__(self) -> bool:
        return bool(self.storage and self.path)


# -- when an asset goes ----------------------------------------------------------------------------


def watch_assets() -> None:
    """Hear of every asset that Django deletes; that also keeps Django from deleting in silence."""
    models: list[type[Asset]] = [Asset, *Asset.__subclasses__()]
    for model in models:
        post_delete.connect(_asset_deleted, sender=model, dispatch_uid="django_jobs_files")


def _asset_deleted(instance: Asset, using: str, **_: Any) -> None:
    remove_at_commit(StoredFile.of(instance), using)


def remove_at_commit(file: StoredFile, alias: str) -> None:
    """Remove ``file`` once the transaction has committed, unless an asset refers to it then."""
    if not file:
        return
    planned = [callback for _, callback, *_ in connections[alias].run_on_commit[-1:]]
    if planned and isinstance(planned[0], _Removal):
        # should a savepoint be rolled back in between: an asset refers to the file, and it stays
        planned[0].files.append(file)
        return
    transaction.on_commit(_Removal(alias, file), using=alias, robust=True)


class _Removal:
    """What a transaction removes at its commit: many files, a few queries."""

    def __init__(self, alias: str, file: StoredFile) -> None:
        self.files = [file]
        self._alias = alias

    def __call__(self) -> None:
        remove_unneeded(self.files, self._alias)


# -- when an asset does not come to be -------------------------------------------------------------

#: The files that the attempt which runs here stored inside transactions.
_uncertain: ContextVar[list[StoredFile] | None] = ContextVar("django_jobs_files", default=None)


@contextlib.contextmanager
def removed_if_rolled_back(alias: str) -> Iterator[None]:
    """Remove, at the end, the files whose assets went with a transaction that was rolled back."""
    uncertain: list[StoredFile] = []
    token = _uncertain.set(uncertain)
    try:
        yield
    finally:
        _uncertain.reset(token)
        remove_unneeded(uncertain, alias)


def note_stored(file: StoredFile, alias: str) -> None:
    """Note that ``file`` has its asset, if the transaction around is not rolled back."""
    uncertain = _uncertain.get()
    if uncertain is not None and connections[alias].in_atomic_block:
        uncertain.append(file)


# -- removing --------------------------------------------------------------------------------------


def remove_unneeded(files: Iterable[StoredFile], alias: str) -> None:
    """Remove those of ``files`` to which no asset refers. Raises nothing; errors are logged."""
    wanted = [file for file in files if file]
    for begin in range(0, len(wanted), LOOKED_UP):
        batch = wanted[begin : begin + LOOKED_UP]
        try:
            needed = needed_of(batch, alias)
        except Error:  # a file too many does less harm than one too few
            logger.exception("job %s: its files stay: are they needed?", batch[0].job_id)
            continue
        for file in batch:
            if file not in needed:
                remove(file)


def needed_of(files: Sequence[StoredFile], alias: str) -> set[StoredFile]:
    """Return those of ``files`` to which an asset refers."""
    starts = {file.path[:PATH_START] for file in files}
    rows = Asset.objects.using(alias).filter(storage_path_start__in=starts)
    places = set(rows.values_list("storage", "storage_path"))
    return {file for file in files if (file.storage, file.path) in places}


def remove(file: StoredFile) -> bool:
    """Remove ``file``; say whether it is gone. Errors are logged."""
    try:
        storage = storages[file.storage]
        place = checked_place(storage, file.path)
        storage.delete(file.path)
    except FileNotFoundError:
        return True
    except Exception:  # a storage may raise anything; what the caller does matters more
        logger.exception(
            "job %s: %s in the storage %r could not be removed",
            file.job_id,
            file.path,
            file.storage,
        )
        return False
    if place is not None and job_of(file.path) is not None:
        _remove_empty_folders(place.parent)
    return True


def _remove_empty_folders(attempt: Path) -> None:
    """Remove the folder of an attempt, and that of its job, if they are empty."""
    with contextlib.suppress(OSError):  # not empty, or gone
        attempt.rmdir()
        attempt.parent.rmdir()


# -- places on this machine's disk -----------------------------------------------------------------


def root_of(storage: Storage) -> Path | None:
    """Return the folder in which ``storage`` keeps its files; ``None`` if it is not on this disk.

    ``ImproperlyConfigured`` if nobody said where: Django would take the working directory, that is
    the source of the project.
    """
    if isinstance(storage, InMemoryStorage):  # it has paths, which lead nowhere
        return None
    try:
        root = storage.path("")
    except NotImplementedError:
        return None
    if not str(getattr(storage, "base_location", root)):
        raise ImproperlyConfigured("The storage of the files of jobs has no location.")
    return Path(root).resolve()


def checked_place(storage: Storage, path: str) -> Path | None:
    """Return where ``path`` lies on this disk, links resolved; ``None`` if it is not on it.

    ``SuspiciousFileOperation`` if it leads out of the storage, by dots or by links.
    """
    root = root_of(storage)
    if root is None:
        return None
    place = Path(storage.path(path)).resolve()
    if place == root or not place.is_relative_to(root):
        raise SuspiciousFileOperation(f"{path!r:.200} leads out of its storage.")
    return place
