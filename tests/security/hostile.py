"""Generators of requests that no browser and no agent would send; the same seed gives the same requests."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from random import Random
from typing import Any
from urllib.parse import quote, quote_from_bytes

TEXTS = (
    *("", " ", "\x00", "a\x00b", "\u202e\u2066", "\ufeff", "é", "\U0001f335" * 50, "x" * 300, "x" * 20_000),
    *("0", "-1", "1e9", "007", "1.5", "NaN", "Infinity", "٣", "²", "１２", "9" * 19, "9" * 40, "9" * 5000),
    *("2147483648", "9223372036854775807", "9223372036854775808", "18446744073709551616"),
    *("2026-13-45", "9999-12-31T23:59:59Z", "0001-01-01", "2026-02-30T25:61", "12:60", "24:00", "now"),
    *("in 1 hour", "in 99999999999 years", "tomorrow at 9am", "every 0 seconds", "every 1e400 days"),
    *("UTC", "Europe/Berlin", "Mars/Olympus", "../UTC", "/etc/localtime", "posixrules", "Etc/GMT+99", "."),
    *("* * * * *", "*/0 * * * *", "0 0 30 2 *", "@daily", "@reboot", "60 24 32 13 8", "*," * 60, "? ? ? ? ?"),
    *("' OR 1=1 --", '"; DROP TABLE x; --', "%", "_", "\\", "%00", "%s", "{0}", "{{7*7}}", "{% debug %}"),
    *("<script>alert(1)</script>", "javascript:alert(1)", "//evil.example", "http://127.0.0.1/", "\r\nX: y"),
    *("[]", "{}", "null", "true", '{"a": 1}', "[" * 2000, '{"a":' * 40, '"\\ud800"', "1" * 400, "[1e999]"),
    *("once", "interval", "cron", "phrase", "notify", "webhook", "prompt", "week", "month", "delete", "test"),
)
BYTES = (b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf5\x80\x80\x80", b"\x80", b"\x00")
WORDS = (*TEXTS, *BYTES)
METHODS = ("GET",) * 8 + ("POST",) * 8 + ("HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")
FORM = "application/x-www-form-urlencoded"
CONTENT_TYPES = (
    *("", "x", "/", "text/plain", "application/json", "application/octet-stream", "multipart/form-data"),
    *("multipart/form-data; boundary=", "multipart/form-data; boundary=x", f"{FORM}; charset=klingon"),
    *(f"{FORM}; charset=utf-16", f"{FORM}; charset=utf-7", "application/json; charset=x"),
)
HEADERS = (
    *("Accept", "Accept-Encoding", "Accept-Language", "Authorization", "Cookie", "Host", "Origin", "Referer"),
    *("HX-Request", "HX-Current-URL", "HX-Target", "HX-Boosted", "If-Modified-Since", "If-None-Match"),
    *("Range", "User-Agent", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-CSRFToken"),
)
COOKIES = ("sessionid", "csrftoken", "messages", "theme")


@dataclass(frozen=True)
class Hostile:
    """One raw request, as a socket would carry it."""

    method: str
    path: str
    body: bytes = b""
    content_type: str = FORM
    headers: dict[str, str] = field(default_factory=dict)
    closes_after: float = 10.0

    def __str__(self) -> str:
        start = self.body[:500]
        return f"{self.method} {self.path[:300]} {self.content_type!r} {self.headers} {start!r}"


def escaped(word: str | bytes) -> str:
    return quote_from_bytes(word, safe="") if isinstance(word, bytes) else quote(word, safe="")


def encoded(pairs: Iterable[tuple[str, str | bytes]]) -> str:
    return "&".join(f"{quote(name, safe='')}={escaped(word)}" for name, word in pairs)


class Fields(HTMLParser):
    """The fields of all forms on a page, with the values that they would send."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self._open = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in {"input", "select", "textarea", "button"} and given.get("name"):
            self.found[given["name"]] = given.get("value", "")
            self._open = given["name"]
        if tag == "option" and "selected" in given:
            self.found[self._open] = given.get("value", "")

    def handle_data(self, data: str) -> None:
        if self._open and self.get_starttag_text() and str(self.get_starttag_text()).startswith("<textarea"):
            self.found[self._open] = data


def fields_of(html: str) -> dict[str, str]:
    parser = Fields()
    parser.feed(html)
    return parser.found


def address(random: Random, route: str, examples: dict[str, Any]) -> str:
    """Fill the parameters of a route with existing ids or with junk."""

    def value(found: re.Match[str]) -> str:
        is_junk = random.random() < 0.4
        return escaped(random.choice(WORDS)) if is_junk else escaped(str(examples[found[1]]))

    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", value, route)


def to_page(
    random: Random, route: str, examples: dict[str, Any], fields: dict[str, str], names: list[str]
) -> Hostile:
    """Return a request to a page: an almost valid form, or junk."""
    known = list(fields) if fields and random.random() < 0.5 else names
    pairs: list[tuple[str, str | bytes]] = list(fields.items()) if random.random() < 0.7 else []
    for _ in range(random.randint(0, 4)):
        pairs.append((random.choice(random.choice((known, names))), random.choice(WORDS)))
    random.shuffle(pairs)
    method, query = random.choice(METHODS), ""
    body, content_type = b"", FORM
    if method in {"GET", "HEAD", "OPTIONS"} or random.random() < 0.1:
        query = f"?{encoded(pairs)}"
    else:
        body = encoded(pairs).encode()
    if random.random() < 0.1:
        content_type = random.choice(CONTENT_TYPES)
        body = random.choice((body, json.dumps(fields).encode(), bytes(random.choices(range(256), k=2000))))
    if random.random() < 0.01:
        body = encoded([(random.choice(known), "x" * 1_100_000)]).encode()
    if random.random() < 0.01:
        body = encoded((f"x{number}", "") for number in range(1200)).encode()
    return Hostile(method, address(random, route, examples) + query, body, content_type, headers(random))


def headers(random: Random) -> dict[str, str]:
    """Return a few headers that a server accepts: one line each."""
    if random.random() < 0.7:
        return {}
    made = {}
    for name in random.sample(HEADERS, random.randint(1, 3)):
        word = _one_line(random.choice(TEXTS))
        made[name] = f"{random.choice(COOKIES)}={word}" if name == "Cookie" else word
    return made


def _one_line(text: str) -> str:
    # Servers pass headers on as bytes decoded with latin-1.
    return re.sub(r"[\r\n\x00]", "", text)[:4000].encode().decode("latin-1")


# Requests to /mcp

RPC_METHODS = (
    *("initialize", "ping", "tools/list", "tools/call", "resources/list", "resources/read", "prompts/list"),
    *("prompts/get", "resources/templates/list", "resources/subscribe", "resources/unsubscribe"),
    *("completion/complete", "logging/setLevel", "notifications/initialized", "notifications/cancelled"),
    *("server/discover", "subscriptions/listen", "tasks/get", "nope/nope", "", "\x00", "__class__"),
)
URIS = (
    "jobs://job_1",
    "jobs://%00",
    "schedules://x",
    "agenda://today",
    "waiting://person",
    "cron://examples",
    "file:///etc/passwd",
    "x",
    "",
)
VERSIONS = ("2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "1999-01-01", "", "\x00")
MCP_TYPES = (*("application/json",) * 120, *CONTENT_TYPES)
RAW_BODIES = (
    *(b"", b"{", b"[]", b"null", b'"x"', b"0", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 5000, b"NaN", b"\x00"),
    *(
        b'{"jsonrpc": "2.0", "id": 1e999, "method": "ping"}',
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
    ),
    *(b"[" + b'{"jsonrpc":"2.0","id":1,"method":"ping"},' * 2000 + b"{}]", b" " * 300_000, b"1" * 10_000),
)


def value(random: Random, depth: int = 3) -> Any:
    """Return any JSON value."""
    kind = random.randrange(9 if depth else 7)
    if kind == 7:
        return [value(random, depth - 1) for _ in range(random.randint(0, 4))]
    if kind == 8:
        return {random.choice(TEXTS)[:50]: value(random, depth - 1) for _ in range(random.randint(0, 4))}
    plain = (None, True, random.choice(TEXTS), random.choice(TEXTS), random.randint(-3, 99), 10**40, 1e308)
    return plain[kind]


def to_mcp(random: Random, token: str, tools: dict[str, Any]) -> Hostile:
    """Return a request to /mcp: an almost valid call, a call with junk in it, or no call at all."""
    name, method = random.choice(list(tools)), random.choice(RPC_METHODS + ("tools/call",) * 20)
    arguments = {
        argument: value(random)
        for argument in tools[name]["inputSchema"]["properties"]
        if random.random() < 0.5
    }
    params: Any = {"name": name, "arguments": arguments, "uri": random.choice(URIS)}
    version = random.choice(VERSIONS[:3]) if random.random() < 0.8 else random.choice(VERSIONS)
    if version == VERSIONS[0] or random.random() < 0.1:
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    if method == "initialize":
        params |= {
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        }
    for _ in range(random.choice((0, 0, 1, 2))):
        params[random.choice(("name", "arguments", "uri", "_meta", "level", "ref", "cursor"))] = value(random)
    message: Any = {"jsonrpc": "2.0", "id": random.choice((1, "a")), "method": method, "params": params}
    if random.random() < 0.15:
        message[random.choice(("jsonrpc", "id", "method", "params", "extra"))] = value(random)
    if random.random() < 0.03:
        arguments["prompt"] = "x" * 300_000
    body = random.choice(RAW_BODIES) if random.random() < 0.15 else json.dumps(message).encode()
    given = {
        "Accept": "application/json, text/event-stream",
        "Authorization": f"Bearer {token}",
        "Host": "127.0.0.1:8000",
        "MCP-Protocol-Version": version,
        "Mcp-Method": method,
        "Mcp-Name": str(params.get("uri") if method == "resources/read" else params.get("name")),
    }
    for _ in range(random.choice((0, 0, 0, 0, 0, 0, 1, 2))):
        header = random.choice((*given, *HEADERS, "Mcp-Session-Id", "Last-Event-ID"))
        given[header] = random.choice(TEXTS)
    return Hostile(
        random.choice(METHODS) if random.random() < 0.05 else "POST",
        "/mcp",
        body,
        random.choice(MCP_TYPES),
        {key: _one_line(text) for key, text in given.items()},
        # A subscription stays open by design, until the client leaves.
        closes_after=0.05 if method == "subscriptions/listen" else 10.0,
    )
