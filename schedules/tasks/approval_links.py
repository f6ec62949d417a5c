"""Approval links: signed URLs in alerts that open the page of one approval without a login."""

from datetime import timedelta
from typing import NamedTuple

from django.core.signing import BadSignature, SignatureExpired, TimestampSigner
from django.urls import reverse

from schedules.tasks.answer_links import LONGEST_TOKEN, ExpiredLinkError, UnknownLinkError
from schedules.tasks.site import public_site

# Longer than any approval waits for an answer.
LIFETIME = timedelta(days=2)
_PURPOSE = "schedules.approvals"
_DIGEST_LENGTH = 32


class Link(NamedTuple):
    """The verified content of a link."""

    approval_id: int
    digest: str

    def is_about(self, digest: str) -> bool:
        """Return whether it was made for the approval with this digest; after a restore, another may have its id."""
        return self.digest == digest[:_DIGEST_LENGTH]


def approval_address(approval_id: int, digest: str) -> str:
    """Return the URL of the page, or an empty text if phones cannot reach the pages."""
    site = public_site()
    if not site:
        return ""
    return f"{site}{reverse('schedules:approval-link', args=[make_token(approval_id, digest)])}"


def make_token(approval_id: int, digest: str) -> str:
    return _signer().sign(f"{approval_id}.{digest[:_DIGEST_LENGTH]}")


def read_token(token: str) -> Link:
    """Return what a token is about, without the database; raises UnknownLinkError or ExpiredLinkError."""
    try:
        if len(token) > LONGEST_TOKEN:
            raise UnknownLinkError
        approval_id, digest = _signer().unsign(token, max_age=LIFETIME).split(".")
        return Link(int(approval_id), digest)
    except SignatureExpired as error:
        raise ExpiredLinkError from error
    except (BadSignature, ValueError) as error:
        raise UnknownLinkError from error


def _signer() -> TimestampSigner:
    return TimestampSigner(salt=_PURPOSE, sep=".")
