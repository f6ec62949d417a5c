"""The public address of the pages, for links in notifications."""

import logging
from functools import cache
from urllib.parse import urlsplit

from django.conf import settings
from django.urls import NoReverseMatch, reverse

from schedules.tasks.outbound.destinations import is_loopback

logger = logging.getLogger(__name__)


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
