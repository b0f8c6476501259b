"""Assets that a running handler makes: bytes into the storage, then the row."""

from __future__ import annotations

import hashlib
import mimetypes
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, TypeAlias
from urllib.parse import quote

from django.core.files import File
from django.core.files.storage import storages

from django_jobs.conf import conf
from django_jobs.models import Asset, Job
from django_jobs.services.assets import (
    MAX_ASSET_NAME,
    MAX_ASSET_TYPE,
    MAX_CONTENT_TYPE,
    WEB_SCHEMES,
    checked_url,
    remove_file,
)
from django_jobs.values import storable_text

Content: TypeAlias = "bytes | str | os.PathLike[str] | IO[bytes] | Iterable[bytes]"
Attach: TypeAlias = Callable[[Asset], Asset]

CHUNK = 1 << 18
IN_MEMORY = 1 << 20  # larger contents wait on disk for their turn
_UNSAFE = re.compile(r"[^\w.\- ]+")


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
    with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY) as spool:
        asset.file_size, asset.checksum = _copy(content, spool)
        spool.seek(0)
        asset.storage_path = storage.save(_path(job, name), File(spool, name=name))
    try:
        return attach(asset)
    except BaseException:
        remove_file(asset)
        raise


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


def _path(job: Job, name: str) -> str:
    """Return ``user/job/attempt/name`` with nothing in it that leads elsewhere."""
    plain = PurePosixPath(_UNSAFE.sub("_", name))
    stem, suffix = _cut(plain.stem.strip(" ."), 100), _cut(plain.suffix.strip(" "), 20)
    safe = f"{stem or 'asset'}{suffix}"
    owner = quote(str(job.user_id), safe="")
    if not owner.strip("."):
        owner = owner.replace(".", "%2E")
    return "/".join([owner, str(job.pk), str(job.attempt), safe])


def _cut(text: str, limit: int) -> str:
    """Cut to ``limit`` bytes: file systems count those, and allow 255."""
    return text.encode()[:limit].decode(errors="ignore")


def _copy(content: Content, target: IO[bytes]) -> tuple[int, str]:
    size, digest = 0, hashlib.sha256()
    for chunk in _chunks(content):
        digest.update(chunk)
        size += target.write(chunk)
    return size, digest.hexdigest()


def _chunks(content: Any) -> Iterator[bytes]:
    if isinstance(content, str):
        yield content.encode()
    elif isinstance(content, (bytes, bytearray, memoryview)):
        yield bytes(content)
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
