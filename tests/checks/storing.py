"""Storages for the checks."""

from django.core.files.storage import Storage


class Unsigned(Storage):
    """Like an object store whose addresses are good for everybody."""

    querystring_auth = False
