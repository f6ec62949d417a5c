"""Parsing of ping requests without the database, and answers in the wording that clients expect."""

import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qs
from uuid import UUID

from schedules.limits import PING_BODY_BYTES
from schedules.models.heartbeats import Ping, is_ping_key
from schedules.result import Code, Err, Kind, Result
from schedules.services.jobs.addresses import PING_PATH
from schedules.services.pings import Accepted, Address, Received
from schedules.tasks.heartbeat import SLUG
from schedules.web.messages import message_of

_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_NUMBER = re.compile(r"[0-9]{1,9}")
_SECONDS = re.compile(rb"[0-9]{1,9}(?:\.[0-9]{1,6})?")
_KINDS = {"start": Ping.Kind.START, "fail": Ping.Kind.FAIL, "log": Ping.Kind.LOG}
METHODS = ("HEAD", "GET", "POST")
# By how many seconds a sender had to delay the ping, for example during an outage.
LATE_HEADER = "Cronty-Late"
HEADERS: Mapping[str, str] = {
    "Content-Type": "text/plain; charset=utf-8",
    "Ping-Body-Limit": str(PING_BODY_BYTES),
    "Access-Control-Allow-Origin": "*",
    "Cache-Control": "no-store",
}


class Answer(NamedTuple):
    """The status and text of a response to a ping."""

    status: int
    text: str
    wait: int = 0
    """How many seconds the client should wait before it tries again."""


NOT_FOUND = Answer(404, "not found")
INVALID_URL = Answer(400, "invalid url format")
INVALID_RID = Answer(400, "invalid uuid format")
WRONG_METHOD = Answer(405, "use HEAD, GET or POST")
TOO_FAST = Answer(429, "too many pings; try again in a minute", 60)
NOT_STORED = Answer(503, "the ping was not stored; try again", 5)


def read(
    method: str, path: str, query: bytes, *, body: bytes = b"", sender: str = "", late_by: bytes = b""
) -> Received | Answer:
    """Parse a request, or return the answer to an invalid one."""
    if method not in METHODS:
        return WRONG_METHOD
    address, kind, exit_status = None, Ping.Kind.SUCCESS, None
    match path.removeprefix(PING_PATH).removesuffix("/").split("/"):
        case [ping_id, *rest] if _UUID.fullmatch(ping_id) and (not rest or _is_action(rest)):
            address = Address(UUID(ping_id))
        case [key, slug, *rest] if is_ping_key(key) and (not rest or _is_action(rest)):
            if not SLUG.fullmatch(slug):
                return INVALID_URL
            address = Address(None, key, slug)
        case _:
            return NOT_FOUND
    if rest:
        kind = _KINDS.get(rest[0], Ping.Kind.SUCCESS)
        if rest[0] not in _KINDS:
            exit_status = int(rest[0])
            if exit_status > 255:
                return INVALID_URL
            kind = Ping.Kind.FAIL if exit_status else Ping.Kind.SUCCESS
    rid, create = None, False
    if query:
        # Parameters that other clients add are ignored.
        values = parse_qs(query[:2000].decode("ascii", "replace"), keep_blank_values=True)
        if "rid" in values:
            if not _UUID.fullmatch(values["rid"][-1]):
                return INVALID_RID
            rid = UUID(values["rid"][-1])
        create = values.get("create", [""])[-1] == "1"
    late = float(late_by) if _SECONDS.fullmatch(late_by) else 0.0
    return Received(address, kind, rid, exit_status, body, sender, late, create)


def _is_action(rest: list[str]) -> bool:
    return len(rest) == 1 and (rest[0] in _KINDS or bool(_NUMBER.fullmatch(rest[0])))


def answer_to(result: Result[Accepted]) -> Answer:
    """Return the answer for the outcome of storing a ping."""
    if not isinstance(result, Err):
        return Answer(201, "Created") if result.value.has_created else Answer(200, "OK")
    match result.code:
        case Code.PING_NOT_FOUND:
            return NOT_FOUND
        case Code.PING_SLUG_AMBIGUOUS:
            return Answer(409, "ambiguous slug")
    if result.kind in (Kind.QUOTA, Kind.TOO_FAST):
        return Answer(429, message_of(result), result.seconds or 60)
    return Answer(400, message_of(result))
