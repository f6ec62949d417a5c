"""The request headers that a webhook may set: a list of well-known names, which the operator can extend."""

import re
from collections.abc import Collection

_KNOWN = """
    accept accept-language api-key apikey authorization content-language content-type if-match if-modified-since
    if-none-match if-unmodified-since prefer private-token user-agent x-access-token x-api-key x-api-token
    x-api-version x-app-key x-auth-email x-auth-key x-auth-token x-client-id x-client-secret x-correlation-id
    x-event x-event-type x-functions-key x-github-api-version x-gitlab-token x-goog-api-key x-hook-secret
    x-master-key x-n8n-api-key x-plex-token x-redmine-api-key x-request-id x-secret x-secret-token
    x-shopify-access-token x-token x-vault-token
"""
ALLOWED = frozenset(_KNOWN.split())
# For names that people invent for their own receivers.
ALLOWED_PREFIXES = ("x-custom-", "x-webhook-")
# Not even the operator can allow these: they frame the request, are set by Cronty, or are trusted by receivers as set
# by their own proxy.
_RESERVED = """
    connection content-length expect forwarded host idempotency-key keep-alive te trailer transfer-encoding upgrade via
    x-real-ip
"""
NEVER = frozenset(_RESERVED.split())
NEVER_PREFIXES = ("cronty-", "proxy-", "sec-", "x-forwarded-", "x-original-", "x-rewrite-")

_NAME = re.compile(r"[A-Za-z0-9-]{1,64}")
_VALUE = re.compile(r"(?! )[\x20-\x7e]{0,2048}(?<! )")


def header_problem(name: str, value: str, added: Collection[str] = ()) -> str | None:
    """Return why a header cannot be sent, or None; `added` are the names that the operator allows."""
    if not _NAME.fullmatch(name) or not _is_allowed(name.lower(), added):
        return (
            f"header {name!r} is not allowed; use a common one, like authorization or x-api-key, or x-custom-…; "
            "the operator can add others in CRONTY_WEBHOOK_HEADERS"
        )
    return shape_problem(name, value)


def shape_problem(name: str, value: str) -> str | None:
    """Return why a name and a value do not form a valid header, or None; whether it is allowed does not matter."""
    if not _NAME.fullmatch(name):
        return f"header {name!r} must consist of 1 to 64 letters, digits and -"
    if not _VALUE.fullmatch(value):
        return f"the value of header {name!r} must be one line of at most 2048 ASCII characters, without spaces around it"
    return None


def setting_problem(name: str) -> str | None:
    """Return why the operator cannot allow a header of this name, or None."""
    lower = name.lower()
    if not _NAME.fullmatch(name):
        return f"{name!r} is not the name of a header."
    if lower in NEVER or lower.startswith(NEVER_PREFIXES):
        return f"{name!r} can never be set by a webhook; leave it out."
    return None


def _is_allowed(name: str, added: Collection[str]) -> bool:
    if name in NEVER or name.startswith(NEVER_PREFIXES):
        return False
    return name in ALLOWED or name.startswith(ALLOWED_PREFIXES) or name in map(str.lower, added)
