"""Where photographs come from: each source is a list of names with a way to read the file."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from example_project.photos.archives import members, opened_archive, read_member
from example_project.photos.models import PhotoUpload

FOLDERS = {"samples": Path(__file__).resolve().parent / "samples"}

Photo = tuple[str, Callable[[], bytes]]


def photos_in_folder(folder: str) -> list[Photo]:
    """Return the photographs of one of our own folders."""
    return [(path.name, path.read_bytes) for path in sorted(FOLDERS[folder].glob("*.jpg"))]


@contextmanager
def photos_in_upload(upload: PhotoUpload) -> Iterator[list[Photo]]:
    """Open a zip and return its files. Raises ``ArchiveRefused``."""
    with upload.file.open("rb") as file, opened_archive(file, upload.file.size) as archive:
        yield [
            (member.filename, functools.partial(read_member, archive, member))
            for member in members(archive)
        ]
