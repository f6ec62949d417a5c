"""Links in notifications: which URLs a tap may open, and the public address of the pages."""

import logging
import re
from functools import cache
from urllib.parse import urlsplit

from django.conf import settings
from django.urls import NoReverseMatch, reverse

from schedules import limits
from schedules.tasks.outbound.destinations import is_loopback

logger = logging.getLogger(__name__)

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


def public_site() -> str:
    """Return the beginning of links to pages, or an empty text if there are no pages, or phones cannot reach them.

    It never raises: a mistake in a project's URLs must not keep runs from being claimed and settled.
    """
    return _site_of(settings.CRONTY_URL, str(getattr(settings, "ROOT_URLCONF", "")))


def page_of_job(public_id: str) -> str:
    """Return the address of a job's page, or its id in a project without pages."""
    try:
        return f"{settings.CRONTY_URL.rstrip('/')}{reverse('schedules:job', args=[public_id])}"
    except NoReverseMatch:
        return public_id


@cache
def _site_of(url: str, urlconf: str) -> str:
    try:
        host = urlsplit(url).hostname
        if not urlconf or host is None or is_loopback(host):
            return ""
        reverse("schedules:jobs")
    except NoReverseMatch:
        # A project may leave out the pages.
        return ""
    except Exception:
        logger.exception("Notifications have no link: the addresses in %s cannot be used", urlconf)
        return ""
    return url.rstrip("/")
