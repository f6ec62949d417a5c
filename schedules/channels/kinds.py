"""What a kind of channel is: the fields that a person fills in, and how a message becomes one request."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import Any, TypeAlias

from django.conf import settings

from schedules import limits
from schedules.channels.message import Message
from schedules.tasks.outbound import Refused, Target, problem_with_url
from schedules.tasks.outbound.addresses import known_address
from schedules.tasks.outbound.destinations import parse_destination

Values: TypeAlias = Mapping[str, str]
"""The fields of one channel, its secrets included."""

LONGEST_VALUE = 2048
_NO_ADDRESS = IPv4Address(0)


@dataclass(frozen=True)
class Field:
    """What a person fills in."""

    name: str
    label: str
    help: str = ""
    is_secret: bool = False
    is_required: bool = True
    is_set_by_browser: bool = False
    """Whether the page fills it in, after the person has agreed."""
    default: str = ""
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
    """The one request that delivers a message."""

    url: str
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    method: str = "POST"
    trusted: bool = False
    """Whether the operator chose the server."""
    setting: str = "the server of the channel"
    """Where the address was set, for error messages."""
    data: bytes = b""
    """What is sent instead of the body as JSON."""

    @property
    def content(self) -> bytes:
        return self.data or json.dumps(self.body, ensure_ascii=False).encode()


@dataclass(frozen=True)
class Kind:
    """One kind of channel; one without `request` is sent in a way of its own."""

    name: str
    title: str
    fields: tuple[Field, ...]
    request: Callable[[Values, Message], Request] | None = None
    receipt: str = ""
    """What the service calls the id of a message in its answer."""
    note: str = ""
    """What a person should know before choosing it."""
    is_for_staff: bool = False
    """Whether only staff may use it."""
    can_end: bool = False
    """Whether the service says when the receiver wants no more messages, by 404 or 410."""

    @property
    def speaker(self) -> str:
        """The server, with its article, for error messages."""
        return f"{'an' if self.title[0] in 'aeiou' or self.title == 'ntfy' else 'a'} {self.title} server"

    def field(self, name: str) -> Field:
        return next(field for field in self.fields if field.name == name)


def shaped(pattern: str, advice: str) -> Callable[[str], str | None]:
    """Refuse a text of another shape, with advice."""
    compiled = re.compile(pattern)
    return lambda text: None if compiled.fullmatch(text) else advice


def server_problem(url: str) -> str | None:
    """Return why secrets and messages must not be sent to this address, or None."""
    if problem := problem_with_url(url):
        return problem
    target = Target.parse(url)
    if target.scheme != "https" and not _is_allowed(target):
        return "Use https://, or ask the operator to list this host in CRONTY_OUTBOUND_ALLOW."
    return None


def joined(server: str, path: str) -> str:
    return f"{server.rstrip('/')}{path}"


def _is_allowed(target: Target) -> bool:
    """Return whether the operator has named this host, and so lets it be reached in clear text."""
    try:
        address = known_address(target.host) or _NO_ADDRESS
    except Refused:
        return False
    entries = map(parse_destination, settings.CRONTY_OUTBOUND_ALLOW)
    return any(entry.includes(target.host, target.port, address) for entry in entries)
