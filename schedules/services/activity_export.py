"""Signed exports of the audit log: each line has a MAC over itself and all lines before it, so tampering shows.

The first line says what is exported, the last one how many events there are. An export that continues another starts
its chain with that one's signature.
"""

import hmac
import json
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple

from django.conf import settings

from schedules.models import Event
from schedules.services.event_feed import settled_key
from schedules.services.event_list import EventQuery, scan_events
from schedules.services.permissions import Actor

FORMAT = "cronty-activity-1"
CHUNK = 500
# More would keep the client waiting too long; `is_complete` says whether to continue.
MAX_EVENTS = 50_000
_PURPOSE = b"cronty activity export"


class Verdict(NamedTuple):
    """Whether an export is unchanged, and if not, what is wrong with which line."""

    is_genuine: bool
    events: int
    problem: str = ""


def export_lines(
    actor: Actor,
    query: EventQuery,
    describe: Callable[[Event], dict[str, Any]],
    now: datetime,
    *,
    after: int = 0,
    previous: str = "",
) -> Iterator[str]:
    """Yield the lines of an export, oldest first, in chunks."""
    chain = _Chain(_key(settings.SECRET_KEY), previous)
    head = {
        "format": FORMAT,
        "owner": actor.user.get_username(),
        "made_at": now.isoformat(),
        "after": after,
        "previous": previous,
        "since": query.since and query.since.isoformat(),
        "until": query.until and query.until.isoformat(),
    }
    yield chain.line(head)
    count, scanned_count, last, is_complete = 0, 0, after, False
    # Events committed later belong to the next export, which starts after this one's last event.
    up_to = settled_key(now)
    while scanned_count < MAX_EVENTS and not is_complete:
        scanned = scan_events(actor, query, last, up_to, CHUNK)
        if scanned.events:
            yield "".join(chain.line(describe(event)) for event in scanned.events)
        count, last = count + len(scanned.events), scanned.last
        scanned_count += scanned.scanned_count
        is_complete = scanned.scanned_count < CHUNK
    yield chain.line({"end": True, "events": count, "last": last, "is_complete": is_complete}, "signature")


def verify_lines(lines: Iterable[str]) -> Verdict:
    """Check an export against the installation's current and former secret keys."""
    texts = [line for line in lines if line.strip()]
    verdict = Verdict(False, 0, "There are no lines.")
    for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        verdict = _verify(texts, _key(key))
        if verdict.is_genuine:
            break
    return verdict


def _verify(texts: list[str], key: bytes) -> Verdict:
    chain, events = None, 0
    for number, text in enumerate(texts, 1):
        try:
            document = json.loads(text)
            code = document.pop("signature" if "end" in document else "mac")
        except (ValueError, KeyError, AttributeError, RecursionError):
            return Verdict(False, events, f"Line {number} is no line of an export.")
        if chain is None:
            chain = _Chain(key, str(document.get("previous", "")))
        if not hmac.compare_digest(chain.code_of(document), str(code)):
            return Verdict(False, events, f"Line {number} was changed, or lines before it are missing.")
        if "end" in document:
            is_whole = number == len(texts) and document["events"] == events
            return Verdict(
                is_whole, events, "" if is_whole else f"Something follows the end in line {number}."
            )
        events += number > 1
    return Verdict(False, events, "The end is missing.")


class _Chain:
    """A chain of MACs, each over its own line and all lines before it."""

    def __init__(self, key: bytes, previous: str) -> None:
        self._key, self._last = key, previous

    def code_of(self, document: dict[str, Any]) -> str:
        text = self._last + json.dumps(document, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        self._last = hmac.new(self._key, text.encode(), sha256).hexdigest()
        return self._last

    def line(self, document: dict[str, Any], name: str = "mac") -> str:
        return json.dumps(document | {name: self.code_of(document)}, ensure_ascii=True) + "\n"


def _key(secret: str | bytes) -> bytes:
    return hmac.new(secret if isinstance(secret, bytes) else secret.encode(), _PURPOSE, sha256).digest()
