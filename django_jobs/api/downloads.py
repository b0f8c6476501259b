"""Handing out what a job made, or where it is."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponseBase, HttpResponseRedirect
from django.utils.translation import gettext as _
from rest_framework.exceptions import NotFound
from rest_framework.negotiation import DefaultContentNegotiation

from django_jobs.models import Asset
from django_jobs.services.assets import checked_url
from django_jobs.services.downloads import download_response, has_file


class AnyAccept(DefaultContentNegotiation):
    """Whoever asks for a file takes it as it is, whatever ``Accept`` says."""

    def select_renderer(self, request: Any, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


def answer_with(asset: Asset, request: Any) -> HttpResponseBase:
    """Return the file of ``asset``, or send the browser to its address."""
    if asset.url and not has_file(asset):
        return _redirect(asset.url)
    return download_response(asset, request)


def _redirect(address: str) -> HttpResponseRedirect:
    try:
        return HttpResponseRedirect(checked_url(address))
    except ValueError as error:
        raise NotFound(_("The address of this asset is not safe to follow.")) from error
