"""Stop links: signed URLs in alerts that stop a person's agents without a login."""

from datetime import timedelta

from django.core.signing import BadSignature, TimestampSigner
from django.urls import reverse

from schedules.tasks.site import public_site

LIFETIME = timedelta(days=7)
LONGEST_TOKEN = 200
_PURPOSE = "schedules.agent_stops"


def stop_button(owner_id: object) -> list[dict[str, str]]:
    """Return the button that opens a person's stop link, in a list; an empty list if phones cannot reach the pages."""
    site = public_site()
    if not site:
        return []
    address = f"{site}{reverse('schedules:stop-link', args=[make_token(owner_id)])}"
    return [{"action": "view", "label": "Stop agents", "url": address}]


def make_token(owner_id: object) -> str:
    return _signer().sign(str(owner_id))


def read_token(token: str) -> str:
    """Return whose agents a token may stop, or an empty text if it is forged or too old."""
    if len(token) > LONGEST_TOKEN:
        return ""
    try:
        return _signer().unsign(token, max_age=LIFETIME)
    except BadSignature:
        return ""


def _signer() -> TimestampSigner:
    return TimestampSigner(salt=_PURPOSE, sep=".")
