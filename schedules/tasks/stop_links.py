"""Stop links: signed addresses in alerts that stop the agents of one person, and need no login."""

from datetime import timedelta

from django.core.signing import BadSignature, TimestampSigner
from django.urls import reverse

from schedules.tasks.site import public_site

LIFETIME = timedelta(days=7)
LONGEST_TOKEN = 200
_PURPOSE = "schedules.agent_stops"


def stop_button(owner_id: object) -> list[dict[str, str]]:
    """Return the button of a notification that opens the page of its stop link; none if phones cannot reach it."""
    site = public_site()
    if not site:
        return []
    address = f"{site}{reverse('schedules:stop-link', args=[make_token(owner_id)])}"
    return [{"action": "view", "label": "Stop agents", "url": address}]


def make_token(owner_id: object) -> str:
    return _signer().sign(str(owner_id))


def read_token(token: str) -> str:
    """Return whose agents a token may stop, or an empty text if nobody has made it or it is too old."""
    if len(token) > LONGEST_TOKEN:
        return ""
    try:
        return _signer().unsign(token, max_age=LIFETIME)
    except BadSignature:
        return ""


def _signer() -> TimestampSigner:
    return TimestampSigner(salt=_PURPOSE, sep=".")
