"""Links in notifications: check which URLs a tap may open."""

import re
from urllib.parse import urlsplit

from schedules import limits

WEB_SCHEMES = frozenset(("http", "https"))
# Schemes of apps that only show something; `intent`, `javascript`, `file`, `data` and the like run or read something.
_APPS = """
    discord element facetime facetime-audio fb-messenger geo google.navigation homeassistant mailto maps market matrix
    msteams nextcloud ntfy obsidian sgnl signal sip sms smsto spotify slack tel tg things twitter vnd.youtube webcal
    whatsapp xmpp youtube zoommtg zoomus
"""
APP_SCHEMES = frozenset(_APPS.split())

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):.")
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029]")


def link_problem(url: str) -> str | None:
    """Return why a notification must not open this address, or None."""
    if _UNPRINTABLE.search(url) or limits.hidden_problem(url):
        return "the address contains a space, a line break or an invisible character"
    match = _SCHEME.match(url)
    scheme = match[1].lower() if match else ""
    if scheme in WEB_SCHEMES:
        return None if _has_host(url) else "the address names no host"
    if scheme in APP_SCHEMES:
        return None
    return "begin the address with https:// or with the scheme of a known app, like mailto:, tel: or geo:"


def _has_host(url: str) -> bool:
    try:
        return bool(urlsplit(url).hostname)
    except ValueError:
        return False
