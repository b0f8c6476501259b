"""Zips from users: read with a limit on everything that could be too much."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

MAX_ZIP_BYTES = 10 * 1024**2  # what opening one may cost hangs on this: its directory is read whole
MAX_MEMBERS = 200
MAX_MEMBER_BYTES = 20 * 1024**2
MAX_TOTAL_BYTES = 200 * 1024**2  # uncompressed
# Python unpacks these piece by piece; of the others, a few kilobytes become gigabytes at once.
SAFE_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
MAC_RUBBISH = "__MACOSX/"


class ArchiveRefused(ValueError):
    """The file is no zip, or too large a one; the message tells the user."""


@contextmanager
def opened_archive(file: IO[bytes], size: int) -> Iterator[zipfile.ZipFile]:
    """Open the zip in ``file`` of ``size`` bytes, or raise ``ArchiveRefused``."""
    if size > MAX_ZIP_BYTES:
        raise ArchiveRefused(f"The zip is larger than {MAX_ZIP_BYTES} bytes.")
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
        raise ArchiveRefused("The file is no zip that can be read.") from error
    with archive:
        _check_members(members(archive))
        yield archive


def members(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Return the files in ``archive``."""
    return [
        member
        for member in archive.infolist()
        if not member.is_dir() and not member.filename.startswith(MAC_RUBBISH)
    ]


def read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Return the content of one file, or raise ``ValueError`` or what ``zipfile`` raises."""
    if member.compress_type not in SAFE_COMPRESSIONS:
        raise ValueError("it is neither deflated nor stored")
    if member.file_size > MAX_MEMBER_BYTES:
        raise ValueError(f"more than {MAX_MEMBER_BYTES} bytes")
    with archive.open(member) as file:
        return file.read(MAX_MEMBER_BYTES)  # never more than the ``file_size`` that was checked


def _check_members(found: list[zipfile.ZipInfo]) -> None:
    if not found:
        raise ArchiveRefused("The zip is empty.")
    if len(found) > MAX_MEMBERS:
        raise ArchiveRefused(f"The zip holds more than {MAX_MEMBERS} files.")
    if sum(member.file_size for member in found) > MAX_TOTAL_BYTES:
        raise ArchiveRefused(f"The files in the zip are larger than {MAX_TOTAL_BYTES} bytes.")
