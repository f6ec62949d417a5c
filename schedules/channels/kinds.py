"""Base classes of channel kinds: the fields that a person fills in, and the request that delivers a message."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from schedules import limits
from schedules.channels.message import Message
from schedules.tasks.outbound import Target, problem_with_url
from schedules.tasks.outbound.addresses import is_allowed_in_clear

Values: TypeAlias = Mapping[str, str]
"""The fields of one channel, including its secrets."""

LONGEST_VALUE = 2048
# The word for none of the choices of a field, as an empty value stands for its default.
NOTHING_CHOSEN = "none"


@dataclass(frozen=True)
class Field:
    """One setting of a channel that a person fills in."""

    name: str
    label: str
    help: str = ""
    is_secret: bool = False
    is_required: bool = True
    is_set_by_browser: bool = False
    """Whether the page fills it in, once the person has agreed."""
    is_generated: bool = False
    """Whether Cronty creates it; nobody fills it in."""
    default: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    """Words of which several may be chosen, with their labels; the value has them separated by spaces."""
    problem: Callable[[str], str | None] = lambda text: None

    def problem_with(self, value: str) -> str | None:
        """Return why a value is not accepted, or None."""
        if not value:
            return f"Fill in {self.label[:1].lower()}{self.label[1:]}." if self.is_required else None
        if len(value) > LONGEST_VALUE:
            return f"Use at most {LONGEST_VALUE:,} characters."
        return limits.line_problem(value) or self.problem(value)


@dataclass(frozen=True)
class Request:
    """The request that delivers a message."""

    url: str
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    method: str = "POST"
    trusted: bool = False
    """Whether the operator chose the server."""
    setting: str = "the server of the channel"
    """Where the address was set, for error messages."""
    data: bytes = b""
    """Raw content that is sent instead of the JSON body."""

    @property
    def content(self) -> bytes:
        return self.data or json.dumps(self.body, ensure_ascii=False).encode()


@dataclass(frozen=True)
class ChannelKind:
    """One kind of channel; those without `request` are not sent by HTTP (see sending.py)."""

    name: str
    title: str
    fields: tuple[Field, ...]
    request: Callable[[Values, Message], Request] | None = None
    receipt: str = ""
    """The field with the message's id in the service's answer."""
    note: str = ""
    """What a person should know before choosing it."""
    is_for_staff: bool = False
    """Whether only staff may use it."""
    can_end: bool = False
    """Whether a 404 or 410 from the service means that the receiver unsubscribed."""

    @property
    def speaker(self) -> str:
        """The server with an article, for error messages."""
        return f"{'an' if self.title[0] in 'aeiou' or self.title == 'ntfy' else 'a'} {self.title} server"

    def field(self, name: str) -> Field:
        return next(field for field in self.fields if field.name == name)


def must_match(pattern: str, advice: str) -> Callable[[str], str | None]:
    """Return a check that refuses texts that do not match the whole pattern."""
    compiled = re.compile(pattern)
    return lambda text: None if compiled.fullmatch(text) else advice


def server_problem(url: str) -> str | None:
    """Return why secrets and messages must not be sent to this address, or None."""
    if problem := problem_with_url(url):
        return problem
    target = Target.parse(url)
    if target.scheme != "https" and not is_allowed_in_clear(target.host, target.port):
        return "Use https://, or ask the operator to list this host in CRONTY_OUTBOUND_ALLOW."
    return None


def join_url(server: str, path: str) -> str:
    return f"{server.rstrip('/')}{path}"
