"""Files that no asset refers to: what crashes and outages left in a storage."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from itertools import islice

from django.core.files.storage import Storage, storages

from django_jobs.models import Job
from django_jobs.services.files import LOOKED_UP, StoredFile, needed_of
from django_jobs.services.layout import is_job_folder, job_of


def find_orphans(storage: str, alias: str) -> Iterator[StoredFile]:
    """Yield the files of jobs in ``storage`` (its alias) that no asset refers to, nor ever will.

    Files that lie otherwise than ours are not looked at, files of live jobs are left alone: their
    assets may be on their way. ``alias`` is the database of the assets.
    """
    files = _files_of_jobs(storage)
    while batch := list(islice(files, LOOKED_UP)):
        # in this order: once a job has ended, it takes no assets any more
        live = _live_jobs(batch, alias)
        ended = [file for file in batch if file.job_id not in live]
        needed = needed_of(ended, alias)
        yield from (file for file in ended if file not in needed)


def _live_jobs(files: Sequence[StoredFile], alias: str) -> set[uuid.UUID]:
    jobs = Job.objects.using(alias).live().filter(pk__in={file.job_id for file in files})
    return set(jobs.values_list("pk", flat=True))


def _files_of_jobs(alias: str) -> Iterator[StoredFile]:
    storage = storages[alias]
    for owner in _listed(storage, "")[0]:
        for job in filter(is_job_folder, _listed(storage, owner)[0]):
            for attempt in _listed(storage, f"{owner}/{job}")[0]:
                folder = f"{owner}/{job}/{attempt}"
                for name in _listed(storage, folder)[1]:
                    job_id = job_of(f"{folder}/{name}")
                    if job_id is not None:
                        yield StoredFile(alias, f"{folder}/{name}", job_id)


def _listed(storage: Storage, folder: str) -> tuple[list[str], list[str]]:
    """Return folders and files, sorted; nothing of a folder that is gone."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        folders, files = storage.listdir(folder)
        return sorted(filter(None, folders)), sorted(filter(None, files))
    return [], []
