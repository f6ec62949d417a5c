"""Signed links in messages: URLs that answer a run, open an approval or stop agents, without a login."""

import hashlib
from datetime import timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from django.core.signing import BadSignature, SignatureExpired, TimestampSigner
from django.urls import reverse

from schedules.tasks.asking import ReminderStep
from schedules.tasks.interface import Run
from schedules.tasks.links import public_site

LONGEST_TOKEN = 200
ANSWER_LIFETIME = timedelta(days=7)
# Longer than any approval waits for an answer.
APPROVAL_LIFETIME = timedelta(days=2)
_APPROVAL_DIGEST_LENGTH = 32
# ntfy's limit.
MAX_BUTTONS = 3


class UnknownLinkError(Exception):
    """The link is forged or damaged."""


class ExpiredLinkError(Exception):
    """The link is too old."""


class _Kind(NamedTuple):
    """The links of one kind: the name of their page, and how long they are valid."""

    # Django derives a separate key from it, so that no other signed value is accepted as such a link.
    purpose: str
    page: str
    lifetime: timedelta

    def sign(self, *values: object) -> str:
        return self._signer.sign(".".join(map(str, values)))

    def read(self, token: str) -> list[str]:
        """Return what was signed, without the database; raises UnknownLinkError or ExpiredLinkError."""
        try:
            if len(token) > LONGEST_TOKEN:
                raise UnknownLinkError
            return self._signer.unsign(token, max_age=self.lifetime).split(".")
        except SignatureExpired as error:
            raise ExpiredLinkError from error
        except (BadSignature, ValueError) as error:
            raise UnknownLinkError from error

    def address(self, *values: object) -> str:
        """Return the URL of a link, or an empty text if phones cannot reach the pages."""
        site = public_site()
        return f"{site}{reverse(f'schedules:{self.page}', args=[self.sign(*values)])}" if site else ""

    @property
    def _signer(self) -> TimestampSigner:
        return TimestampSigner(salt=self.purpose, sep=".")


_ANSWERS = _Kind("schedules.answers", "answer-link", ANSWER_LIFETIME)
_APPROVALS = _Kind("schedules.approvals", "approval-link", APPROVAL_LIFETIME)
_STOPS = _Kind("schedules.agent_stops", "stop-link", timedelta(days=7))


class Button(StrEnum):
    """The answers that a link can give."""

    DONE = "done"
    SNOOZE = "snooze"
    SKIP = "skip"
    PAGE = "page"
    """Open the page on which a person can choose any answer."""


_LABELS = {Button.DONE: "Done", Button.SNOOZE: "Snooze", Button.SKIP: "Skip next"}


class AnswerLink(NamedTuple):
    """The verified content of a link that answers a run."""

    execution_id: int
    button: Button
    digest: str

    @property
    def name(self) -> str:
        """A name that is unique among the links of a question."""
        return f"{self.execution_id}.{self.button}"

    def is_about(self, key: str) -> bool:
        """Return whether it was made for the run with this key; after a restore, another run may have its id."""
        return self.digest == _digest_of(key)


def answer_token(execution_id: int, key: str, button: Button) -> str:
    return _ANSWERS.sign(execution_id, button, _digest_of(key))


def answer_address(execution_id: int, key: str, button: Button) -> str:
    """Return the URL for one answer to a run, or an empty text if there is no run, or phones cannot reach the pages."""
    return _ANSWERS.address(execution_id, button, _digest_of(key)) if execution_id else ""


def read_answer(token: str) -> AnswerLink:
    """Return what a token allows; raises UnknownLinkError or ExpiredLinkError."""
    try:
        execution_id, button, digest = _ANSWERS.read(token)
        return AnswerLink(int(execution_id), Button(button), digest)
    except ValueError as error:
        raise UnknownLinkError from error


def _digest_of(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:16]


class ApprovalLink(NamedTuple):
    """The verified content of a link that opens the page of one approval."""

    approval_id: int
    digest: str

    def is_about(self, digest: str) -> bool:
        """Return whether it was made for the approval with this digest; after a restore, another may have its id."""
        return self.digest == digest[:_APPROVAL_DIGEST_LENGTH]


def approval_token(approval_id: int, digest: str) -> str:
    return _APPROVALS.sign(approval_id, digest[:_APPROVAL_DIGEST_LENGTH])


def approval_address(approval_id: int, digest: str) -> str:
    """Return the URL of the page, or an empty text if phones cannot reach the pages."""
    return _APPROVALS.address(approval_id, digest[:_APPROVAL_DIGEST_LENGTH])


def read_approval(token: str) -> ApprovalLink:
    """Return what a token is about; raises UnknownLinkError or ExpiredLinkError."""
    try:
        approval_id, digest = _APPROVALS.read(token)
        return ApprovalLink(int(approval_id), digest)
    except ValueError as error:
        raise UnknownLinkError from error


def stop_token(owner_id: object) -> str:
    return _STOPS.sign(owner_id)


def stop_button(owner_id: object) -> list[dict[str, str]]:
    """Return the button that opens a person's stop link, in a list; an empty list if phones cannot reach the pages."""
    address = _STOPS.address(owner_id)
    return [{"action": "view", "label": "Stop agents", "url": address}] if address else []


def read_stop_token(token: str) -> str:
    """Return whose agents a token may stop, or an empty text if it is forged or too old."""
    try:
        return ".".join(_STOPS.read(token))
    except (UnknownLinkError, ExpiredLinkError):
        return ""


def ask_for_answer(fields: dict[str, Any], run: Run, reminder: ReminderStep | None) -> None:
    """Add buttons and a link for answers to the fields of a message, besides those that the job sets itself."""
    own_buttons = list(fields["actions"] or [])
    fields["actions"] = [*own_buttons, *_buttons(run)[: MAX_BUTTONS - len(own_buttons)]] or None
    fields["click"] = fields["click"] or answer_address(run.execution_id, run.key, Button.PAGE) or None
    if reminder is None or not reminder.number:
        return
    note = f"reminder {reminder.number} of {reminder.most}"
    if reminder.topic:
        # To one place only, whichever kind the first message went to.
        fields["channel"] = reminder.channel or None
        fields["topic"] = None if reminder.channel else reminder.topic
        note = "nobody answered"
    fields["title"] = f"{(fields['title'] or run.job_name)[:200]} ({note})"


def _buttons(run: Run) -> list[dict[str, Any]]:
    """Return the buttons; there are none if phones cannot reach the pages."""
    links = {
        button: answer_address(run.execution_id, run.key, button)
        for button in _LABELS
        if button is not Button.SKIP or run.repeats
    }
    return [
        {"action": "http", "label": _LABELS[button], "url": link, "method": "POST", "clear": True}
        for button, link in links.items()
        if link
    ]
