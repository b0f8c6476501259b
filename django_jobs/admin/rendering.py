"""Values as HTML. All of them may come from a handler: ``format_html`` escapes each."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from django.template.defaultfilters import filesizeformat
from django.utils import formats, timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince
from django.utils.translation import gettext as _

from django_jobs.models import Asset, Job
from django_jobs.services.assets import checked_url
from django_jobs.states import LIVE_STATES, FailureCode, JobStatus

SHOWN_JSON = 20 * 1024  # bytes


def status_badge(status: str) -> SafeString:
    """The state as a word in a frame; an unknown one as it is stored."""
    known = status in JobStatus.values
    return format_html(
        '<span class="django-jobs-status django-jobs-status-{}">{}</span>',
        status if known else "unknown",
        JobStatus(status).label if known else status,
    )


def status_of(job: Job) -> SafeString:
    """The state of ``job``, and whether it was asked to stop."""
    badge = status_badge(job.status)
    if job.cancel_requested_at is None or job.status not in LIVE_STATES:
        return badge
    return format_html("{} <small>{}</small>", badge, _("asked to stop"))


def outcome(job: Job) -> SafeString:
    """The state of ``job``, and why it ended so."""
    if not job.failure_code:
        return status_of(job)
    return format_html("{} <small>{}</small>", status_of(job), failure_code(job.failure_code))


def progress_bar(percent: int) -> SafeString:
    """A bar with its number beside it."""
    return format_html(
        '<span class="django-jobs-progress">'
        '<progress max="100" value="{0}" aria-label="{1}"></progress> {0} %</span>',
        percent,
        _("progress"),
    )


def failure_code(code: str) -> SafeString:
    """The code, with its sentence as a tip; an unknown one as it is stored."""
    if code not in FailureCode.values:
        return format_html("{}", code or "-")
    return format_html('<span title="{}">{}</span>', FailureCode(code).label, code)


def age(moment: dt.datetime) -> SafeString:
    """How long ago ``moment`` is, in one unit, with the moment itself as a tip."""
    return _time_element(moment, timesince(moment, depth=1), exact(moment))


def moment_element(moment: dt.datetime) -> SafeString:
    """``moment`` to the millisecond, in the time zone of the site."""
    return _time_element(moment, exact(moment), moment.isoformat())


def exact(moment: dt.datetime) -> str:
    local = timezone.localtime(moment) if timezone.is_aware(moment) else moment
    seconds = f"{local:%H:%M:%S}.{local.microsecond // 1000:03}"
    return f"{formats.date_format(local, 'DATE_FORMAT')} {seconds}"


def _time_element(moment: dt.datetime, text: str, tip: str) -> SafeString:
    return format_html('<time datetime="{}" title="{}">{}</time>', moment.isoformat(), tip, text)


def readable_json(value: Any) -> SafeString:
    """``value`` as indented JSON with real characters, cut with a notice."""
    text, is_cut = _json_text(value, SHOWN_JSON)
    shown = format_html('<pre class="django-jobs-json" tabindex="0">{}</pre>', text)
    if not is_cut:
        return shown
    notice = _("Only the first %(size)s are shown.") % {"size": filesizeformat(SHOWN_JSON)}
    return format_html('{}<p class="django-jobs-notice">{}</p>', shown, notice)


def _json_text(value: Any, limit: int) -> tuple[str, bool]:
    """Return JSON of at most ``limit`` bytes, and whether there is more; makes little more."""
    parts, length = [], 0
    for part in json.JSONEncoder(ensure_ascii=False, indent=2).iterencode(value):
        parts.append(part)
        length += len(part)
        if length > limit:
            break
    encoded = "".join(parts).encode()
    return encoded[:limit].decode(errors="ignore"), len(encoded) > limit


def asset_address(asset: Asset) -> SafeString:
    """The address of an asset: a link if it is safe as one, else the text."""
    try:
        checked_url(asset.url)
    except ValueError:
        return format_html("{}", asset.url)
    return link(asset.url, asset.url) if asset.url else format_html("{}", "-")


def link(address: str, text: Any) -> SafeString:
    return format_html('<a href="{}" rel="noopener noreferrer">{}</a>', address, text)
