"""Storages on disk for the cases, here and in the workers; and storages that are out of order."""

from django.core.files.storage import FileSystemStorage

ON_DISK = "django.core.files.storage.FileSystemStorage"


class CannotDelete(FileSystemStorage):
    def delete(self, name):
        raise OSError("the storage is away")


class CannotSave(FileSystemStorage):
    def _save(self, name, content):
        raise OSError("the storage is away")


def storages_on(folder, backend=ON_DISK):
    """``STORAGES`` of the files of jobs, as a dict."""
    return {"django_jobs": {"BACKEND": backend, "OPTIONS": {"location": str(folder)}}}


def files_in(folder):
    """The files below ``folder``, without its path."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
