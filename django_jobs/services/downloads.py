"""Handing out the stored file of an asset: always as a download, never as a page of the site."""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import mimetypes
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from django.core.exceptions import SuspiciousOperation
from django.core.files.storage import storages
from django.http import FileResponse, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.cache import get_conditional_response
from django.utils.http import http_date

from django_jobs.conf import conf
from django_jobs.exceptions import JobsError
from django_jobs.models import Asset
from django_jobs.services.assets import WEB_SCHEMES, checked_url
from django_jobs.services.files import checked_place, root_of
from django_jobs.services.ranges import Part, RangeNotSatisfiable, part_of

logger = logging.getLogger(__name__)
_PLAIN_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(; ?charset=[\w-]+)?", re.ASCII)
_ACTIVE_TYPE = re.compile(r"html|xml|svg|script", re.ASCII | re.IGNORECASE)
_CHECKSUM = re.compile(r"[0-9a-f]{64}", re.ASCII)
_MISSING = (FileNotFoundError, IsADirectoryError, NotADirectoryError, SuspiciousOperation)


class AssetFileMissing(JobsError):
    """The asset has no file, or its file is gone."""


class AssetStorageDown(JobsError):
    """The storage of the file cannot be read just now."""


def has_file(asset: Asset) -> bool:
    """Say whether ``asset`` is a file in a storage of ours (it may be gone all the same)."""
    return bool(asset.storage and asset.storage_path)


def download_response(asset: Asset, request: HttpRequest | None = None) -> HttpResponseBase:
    """Return the file of ``asset`` as a download that no browser shows or runs in place.

    With ``request``, its conditions (If-None-Match and the like) and its range are heeded. With
    ``REDIRECT_DOWNLOADS`` the answer may be the address that a remote storage signs. Asks for no
    permission. Raises ``AssetFileMissing``, ``AssetStorageDown``.
    """
    if not has_file(asset):
        raise AssetFileMissing(f"The asset {asset.pk} has no file.")
    if address := _signed_address(asset):
        return _private(HttpResponseRedirect(address), "private, no-store")
    response = _unless_known(asset, request) or _file_response(asset, request)
    response.headers["Last-Modified"] = http_date(_modified(asset))
    if etag := _etag(asset):
        response.headers["ETag"] = etag
    return _private(response, "private, no-cache")


def _private(response: HttpResponseBase, cache_control: str) -> HttpResponseBase:
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response.headers["Cache-Control"] = cache_control
    return response


# -- conditions and ranges -------------------------------------------------------------------------


def _etag(asset: Asset) -> str | None:
    return f'"{asset.checksum}"' if _CHECKSUM.fullmatch(asset.checksum) else None


def _modified(asset: Asset) -> int:
    moment: dt.datetime = asset.created_at  # of a replaced asset: of the new one
    if timezone.is_naive(moment):
        moment = timezone.make_aware(moment)
    return int(moment.timestamp())


def _unless_known(asset: Asset, request: HttpRequest | None) -> HttpResponseBase | None:
    """Return 304 or 412 if the conditions of ``request`` say so."""
    if request is None:
        return None
    answer: HttpResponse | None = get_conditional_response(
        request, etag=_etag(asset), last_modified=_modified(asset)
    )
    return answer


def _wants_part(asset: Asset, request: HttpRequest | None) -> str:
    """Return the Range header that counts, or ""."""
    if request is None or request.method != "GET":
        return ""
    condition = request.headers.get("If-Range")
    if condition and condition not in (_etag(asset), http_date(_modified(asset))):
        return ""  # it has a part of another file
    return request.headers.get("Range", "")


def _file_response(asset: Asset, request: HttpRequest | None) -> HttpResponseBase:
    header = _wants_part(asset, request)
    with _storage_errors(asset), contextlib.ExitStack() as on_error:
        file = _opened(asset)
        on_error.callback(file.close)
        size = file.size if header and file.seekable() else 0
        try:
            part = part_of(header, size) if header and file.seekable() else None
        except RangeNotSatisfiable:
            return HttpResponse(status=416, headers={"Content-Range": f"bytes */{size}"})
        response = _attachment(asset, file) if part is None else _part(asset, file, size, *part)
        if file.seekable():
            response.headers["Accept-Ranges"] = "bytes"
        on_error.pop_all()
        return response


def _part(asset: Asset, file: Any, size: int, begin: int, length: int) -> FileResponse:
    file.seek(begin)
    response = _attachment(asset, Part(file, length))
    response.status_code = 206
    response.headers["Content-Length"] = str(length)
    response.headers["Content-Range"] = f"bytes {begin}-{begin + length - 1}/{size}"
    return response


def _attachment(asset: Asset, content: Any) -> FileResponse:
    return FileResponse(
        content, as_attachment=True, filename=_file_name(asset), content_type=_content_type(asset)
    )


# -- the storage -----------------------------------------------------------------------------------


def _opened(asset: Asset) -> Any:
    storage = storages[asset.storage]
    place = checked_place(storage, asset.storage_path)
    if place is not None and not place.is_file():  # a pipe would keep us waiting for ever
        raise FileNotFoundError
    return storage.open(asset.storage_path)


@contextlib.contextmanager
def _storage_errors(asset: Asset) -> Iterator[None]:
    """Tell a file that is missing from a storage that is out of order."""
    try:
        yield
    except _MISSING as error:
        logger.warning("job %s: %s is not there: %r", asset.job_id, asset.storage_path, error)
        raise AssetFileMissing(f"The file of the asset {asset.pk} is missing.") from error
    except Exception as error:  # a storage may raise anything
        logger.exception("job %s: %s cannot be opened", asset.job_id, asset.storage_path)
        raise AssetStorageDown(
            f"The file of the asset {asset.pk} cannot be read just now. Try again later."
        ) from error


def _signed_address(asset: Asset) -> str:
    """Return where a remote storage itself hands out the file, or "".

    Only if the project wants it, the storage is not on this disk and does not say that it signs
    nothing; and never for what a browser could show or run there.
    """
    if not conf.REDIRECT_DOWNLOADS or _is_active(asset):
        return ""
    try:
        storage = storages[asset.storage]
        is_private = root_of(storage) is None and getattr(storage, "querystring_auth", True)
        address = checked_url(storage.url(asset.storage_path)) if is_private else ""
    except Exception as error:  # noqa: BLE001 - a storage may raise anything; we have the file itself
        logger.warning("job %s: no address of %s: %r", asset.job_id, asset.storage_path, error)
        return ""
    is_remote = address.lower().startswith(tuple(f"{scheme}://" for scheme in WEB_SCHEMES))
    return address if is_remote else ""


def _is_active(asset: Asset) -> bool:
    """Say whether a browser may take the file for a page, by its type or by its name."""
    guessed = mimetypes.guess_type(asset.storage_path)[0] or ""
    return any(_ACTIVE_TYPE.search(kind) for kind in (asset.content_type, guessed))


# -- headers ---------------------------------------------------------------------------------------


def _file_name(asset: Asset) -> str:
    """The name without folders, and without what would break or disguise itself in a header."""
    name = PurePosixPath(asset.name).name
    return "".join(character if character.isprintable() else "_" for character in name) or "asset"


def _content_type(asset: Asset) -> str:
    """The type that the handler gave, if it is one: it becomes a header."""
    is_plain = _PLAIN_TYPE.fullmatch(asset.content_type)
    return asset.content_type if is_plain else "application/octet-stream"
