"""Assets that a running handler makes: bytes into the storage, then the row."""

from __future__ import annotations

import hashlib
import mimetypes
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, TypeAlias

from django.core.files import File
from django.core.files.storage import storages

from django_jobs.conf import conf
from django_jobs.models import Asset, Job, persistence
from django_jobs.services.assets import (
    MAX_ASSET_NAME,
    MAX_ASSET_TYPE,
    MAX_CONTENT_TYPE,
    WEB_SCHEMES,
    checked_url,
)
from django_jobs.services.files import StoredFile, note_stored, remove_unneeded, root_of
from django_jobs.services.layout import new_path
from django_jobs.values import storable_text

Content: TypeAlias = "bytes | str | os.PathLike[str] | IO[bytes] | Iterable[bytes]"
Attach: TypeAlias = Callable[[Asset], Asset]

CHUNK = 1 << 18
IN_MEMORY = 1 << 20  # larger contents wait on disk for their turn


def storage_alias() -> str:
    """The alias of the storage for new assets: ``STORAGE``, else "default"."""
    wanted: str = conf.STORAGE
    return wanted if wanted in storages.backends else "default"


def store(
    job: Job,
    name: str,
    content: Content,
    asset_type: str,
    content_type: str | None,
    attach: Attach,
) -> Asset:
    """Stream ``content`` into the storage and attach it; if that fails, remove what was stored."""
    asset = _new_asset(job, name, asset_type)
    asset.content_type = _content_type(name, content_type)
    asset.storage = storage_alias()
    storage = storages[asset.storage]
    root_of(storage)  # it has one, or the file would lie among the source of the project
    with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY) as spool:
        asset.file_size, asset.checksum = _copy(content, spool)
        spool.seek(0)
        return _save(asset, File(spool, name=name), attach)


def _save(asset: Asset, content: File[bytes], attach: Attach) -> Asset:
    alias = persistence.alias_of(asset.job)
    asset.storage_path = new_path(asset.job, asset.name)
    try:
        asset.storage_path = storages[asset.storage].save(asset.storage_path, content)
        attached = attach(asset)
    except BaseException:  # perhaps after the commit, its reply lost: then an asset refers to it
        remove_unneeded([StoredFile.of(asset)], alias)
        raise
    note_stored(StoredFile.of(asset), alias)
    return attached


def link(job: Job, name: str, url: str, asset_type: str, attach: Attach) -> Asset:
    """Attach an http(s) address."""
    asset = _new_asset(job, name, asset_type)
    asset.url = checked_url(url)
    if not url.lower().startswith(tuple(f"{scheme}://" for scheme in WEB_SCHEMES)):
        raise ValueError(f"only http(s) addresses can be linked, not {url!r:.80}")
    return attach(asset)


def _new_asset(job: Job, name: str, asset_type: str) -> Asset:
    return Asset(
        job=job,
        user_id=job.user_id,
        attempt=job.attempt,
        name=storable_text("name", name, MAX_ASSET_NAME),
        asset_type=storable_text("asset_type", asset_type, MAX_ASSET_TYPE),
    )


def _content_type(name: str, given: str | None) -> str:
    guessed = given or mimetypes.guess_type(name)[0] or "application/octet-stream"
    return storable_text("content_type", guessed, MAX_CONTENT_TYPE)


def _copy(content: Content, target: IO[bytes]) -> tuple[int, str]:
    size, digest = 0, hashlib.sha256()
    for chunk in _chunks(content):
        digest.update(chunk)
        size += target.write(chunk)
    return size, digest.hexdigest()


def _chunks(content: Any) -> Iterator[bytes | bytearray | memoryview]:
    if isinstance(content, str):
        yield content.encode()
    elif isinstance(content, (bytes, bytearray, memoryview)):
        yield content  # as it is: a copy would take as much memory again
    elif isinstance(content, os.PathLike):
        with Path(content).open("rb") as file:
            yield from iter(lambda: file.read(CHUNK), b"")
    elif hasattr(content, "read"):
        yield from iter(lambda: _as_bytes(content.read(CHUNK)), b"")
    else:
        for chunk in content:
            yield _as_bytes(chunk)


def _as_bytes(chunk: Any) -> bytes:
    if isinstance(chunk, str):
        return chunk.encode()
    if isinstance(chunk, (bytes, bytearray, memoryview)):
        return bytes(chunk)
    raise TypeError(f"the content of an asset is made of bytes, not of {type(chunk).__name__}")
