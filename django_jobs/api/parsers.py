"""Reading the bodies of requests: always as UTF-8.

Older releases of DRF use whatever codec ``charset`` names, those that decompress included.
"""

from __future__ import annotations

from typing import Any

from rest_framework import parsers
from rest_framework.exceptions import ParseError


class UTF8Mixin(parsers.BaseParser):
    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        context = {**(parser_context or {}), "encoding": "utf-8"}
        return super().parse(stream, media_type, context)


class JSONParser(UTF8Mixin, parsers.JSONParser):
    """JSON; what is nested too deep for Python to read is a bad request, not a server error."""

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        try:
            return super().parse(stream, media_type, parser_context)
        except RecursionError as error:
            raise ParseError("JSON parse error - nested too deep") from error


class FormParser(UTF8Mixin, parsers.FormParser):
    """A form in the body."""


class MultiPartParser(UTF8Mixin, parsers.MultiPartParser):
    """A form in several parts."""
