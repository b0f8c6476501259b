"""Where the files of jobs lie in a storage: ``user/job/attempt/token-name``."""

from __future__ import annotations

import re
import secrets
import uuid
from pathlib import PurePosixPath
from urllib.parse import quote

from django_jobs.models import Job

_UNSAFE = re.compile(r"[^\w.\- ]+")
_LAYOUT = re.compile(
    r"[^/]+/(?P<job>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/(?P<attempt>\d+)/[0-9a-f]{8}-[^/]+"
)


def new_path(job: Job, name: str) -> str:
    """Return a path for a new file of the open attempt, with nothing in it that leads elsewhere.

    The token makes it new on every storage: some overwrite what is there, and a worker that lost
    its lease must not touch what its attempt had stored before.
    """
    plain = PurePosixPath(_UNSAFE.sub("_", name))
    stem, suffix = _cut(plain.stem.strip(" ."), 100), _cut(plain.suffix.strip(" "), 20)
    file_name = f"{secrets.token_hex(4)}-{stem or 'asset'}{suffix}"
    return "/".join([_owner(job), str(job.pk), str(job.attempt), file_name])


def job_of(path: str) -> uuid.UUID | None:
    """Return the key of the job that ``path`` was made for; ``None`` if we did not make it."""
    match = _LAYOUT.fullmatch(path)
    return uuid.UUID(match["job"]) if match else None


def is_job_folder(name: str) -> bool:
    """Say whether a folder of a user's folder may be that of a job."""
    return job_of(f"-/{name}/0/00000000--") is not None


def _owner(job: Job) -> str:
    owner = quote(str(job.user_id), safe="")
    return owner if owner.strip(".") else owner.replace(".", "%2E")


def _cut(text: str, limit: int) -> str:
    """Cut to ``limit`` bytes: file systems count those, and allow 255."""
    return text.encode()[:limit].decode(errors="ignore")
