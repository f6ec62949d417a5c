"""Answer links: signed URLs in notifications, which give one answer to one run without a login."""

import hashlib
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from django.core.signing import BadSignature, SignatureExpired, TimestampSigner
from django.urls import reverse

from schedules.tasks.site import public_site

LIFETIME = timedelta(days=7)
LONGEST_TOKEN = 200
# Django derives a separate key from this name, so that other signed values are never accepted as links.
_PURPOSE = "schedules.answers"


class Button(StrEnum):
    """The answers that a link can give."""

    DONE = "done"
    SNOOZE = "snooze"
    SKIP = "skip"
    PAGE = "page"
    """Open the page on which a person can choose any answer."""


class Link(NamedTuple):
    """The verified content of a link."""

    execution_id: int
    button: Button
    digest: str

    @property
    def name(self) -> str:
        """A name that is unique among the links of a question."""
        return f"{self.execution_id}.{self.button}"

    def is_about(self, key: str) -> bool:
        """Return whether it was made for the run with this key; after a restore, another run may have its id."""
        return self.digest == digest_of(key)


class UnknownLinkError(Exception):
    """The link is forged or damaged."""


class ExpiredLinkError(Exception):
    """The link is too old."""


def make_link(execution_id: int, key: str, button: Button) -> str:
    """Return the URL for one answer to a run, or an empty text if phones cannot reach the pages."""
    site = public_site()
    if not site or not execution_id:
        return ""
    return f"{site}{reverse('schedules:answer-link', args=[make_token(execution_id, key, button)])}"


def make_token(execution_id: int, key: str, button: Button) -> str:
    return _signer().sign(f"{execution_id}.{button}.{digest_of(key)}")


def read_token(token: str) -> Link:
    """Return what a token allows, without the database; raises UnknownLinkError or ExpiredLinkError."""
    try:
        if len(token) > LONGEST_TOKEN:
            raise UnknownLinkError
        execution_id, button, digest = _signer().unsign(token, max_age=LIFETIME).split(".")
        return Link(int(execution_id), Button(button), digest)
    except SignatureExpired as error:
        raise ExpiredLinkError from error
    except (BadSignature, ValueError) as error:
        raise UnknownLinkError from error


def digest_of(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def _signer() -> TimestampSigner:
    return TimestampSigner(salt=_PURPOSE, sep=".")
