"""Taking out of a text what nobody should read in it: secrets, and the folders of this host.

All patterns take time in proportion to the text: users choose some of the texts.
"""

from __future__ import annotations

import re

MASK = "***"
_PRIVATE_KEY = re.compile(
    r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----).*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
# userinfo of a URL, RFC 3986 3.2.1; but host:port/path@x has none
_CREDENTIALS_IN_URL = re.compile(
    r"(?P<scheme>\b[a-z][a-z0-9+.-]{,40}://)"
    r"(?:[^\s/@:?#]{,200}:(?!\d{1,5}(?:[/?#]|\Z))[^\s\"'<>]{1,200}|[^\s/@:?#]{1,200})@",
    re.IGNORECASE,
)
_BEARER = re.compile(r"\b(bearer|basic|token)(\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_ASSIGNED = re.compile(
    r"(?P<name>password|passwd|pwd|passphrase|secret|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|secret[_-]?key|credentials?|token|signature)"
    r"(?P<equals>[\"']?\s{,20}[=:]\s{,20})"
    r"(?:(?P<quote>[\"'])(?:(?!(?P=quote)).){1,500}(?P=quote)?|[^\s\"'&,;]+)",
    re.IGNORECASE,
)
# keys that are known by their form: AWS, GitHub, Slack, Stripe, OpenAI, Google, any JWT
_KNOWN_FORMS = re.compile(
    r"\b(?:A[KS]IA[0-9A-Z]{16}|gh[pousr]_\w{20,255}|github_pat_\w{20,255}|xox[abeprs]-[\w-]{10,255}"
    r"|[sr]k_(?:live|test)_\w{10,255}|sk-[\w-]{20,255}|AIza[\w-]{35}"
    r"|eyJ[\w-]{5,4000}\.eyJ[\w-]{5,4000}\.[\w-]{,4000})"
)
_ABSOLUTE_PATH = re.compile(r"(?:(?<![\w.:/-])|\bfile://)/(?:[\w.@+~-]+/)+(?P<name>[\w.@+~-]*)")
_WINDOWS_PATH = re.compile(
    r"(?:\b[A-Za-z]:\\{1,2}|(?<![\w\\])\\{2,4}(?=\w))(?:[\w.@+~$-]+\\{1,2})+(?P<name>[\w.@+~-]*)"
)


def redact_secrets(text: str) -> str:
    """Blot out passwords in URLs, bearer tokens, ``key=value`` secrets and keys of known forms.

    The default of the setting ``REDACTOR``; a redactor of your own may call it first.
    """
    text = _PRIVATE_KEY.sub(rf"\1{MASK}", text)
    text = _CREDENTIALS_IN_URL.sub(rf"\g<scheme>{MASK}@", text)
    text = _BEARER.sub(rf"\1\2{MASK}", text)
    text = _ASSIGNED.sub(_masked, text)
    return _KNOWN_FORMS.sub(MASK, text)


def hide_folders(text: str) -> str:
    """Leave of each absolute path its last part: where a site keeps its files is its own affair."""
    text = _ABSOLUTE_PATH.sub(r"…/\g<name>", text)
    return _WINDOWS_PATH.sub(r"…/\g<name>", text)


def _masked(found: re.Match[str]) -> str:
    quote = found["quote"] or ""
    return f"{found['name']}{found['equals']}{quote}{MASK}{quote}"
