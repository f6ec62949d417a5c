"""A Cronty server on another machine: its address, its key, and requests to it."""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import click

from schedules import __version__

USER_AGENT = f"cronty/{__version__}"
# More than any answer of Cronty; a wrong address may answer without end.
MAX_REPLY_BYTES = 32 * 1024 * 1024
_PRINTABLE = re.compile(r"[!-~]{1,500}")


class AwayError(Exception):
    """The server is unreachable or unavailable; the same request may succeed later."""


@dataclass(frozen=True)
class Reply:
    """The status, the headers in lower case, and the body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirects, which would send the key to another host and turn a POST into a GET."""

    def redirect_request(self, *arguments: Any, **options: Any) -> None:
        return None


@dataclass(frozen=True)
class Server:
    """The address of a Cronty server, and a token, a ping key, or neither."""

    url: str
    token: str = ""
    ping_key: str = ""

    @property
    def digest(self) -> str:
        """Distinguishes servers and keys in file names, without revealing the key."""
        return hashlib.sha256("\n".join((self.url, self.token, self.ping_key)).encode()).hexdigest()[:16]

    def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        timeout: float = 30.0,
    ) -> Reply:
        """Send a request and return the reply with any status; raise AwayError if there is none."""
        try:
            with build_opener(_NoRedirects).open(
                self._request(method, path, body, headers), timeout=timeout
            ) as answer:
                return _reply(answer.status, answer)
        except HTTPError as error:
            with error:
                return _reply(error.code, error)
        except (OSError, HTTPException, ValueError) as error:
            raise AwayError(_reason_of(error)) from error

    def _request(self, method: str, path: str, body: bytes, headers: Mapping[str, str] | None) -> Request:
        sent = {"User-Agent": USER_AGENT, **(headers or {})}
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"
        # read_url has refused other schemes.
        return Request(f"{self.url}{path}", data=body or None, headers=sent, method=method)  # noqa: S310


def _reason_of(error: Exception) -> str:
    return str(getattr(error, "reason", "")) or str(error) or type(error).__name__


def _reply(status: int, answer: Any) -> Reply:
    headers = {name.lower(): value for name, value in answer.headers.items()}
    try:
        return Reply(status, headers, answer.read(MAX_REPLY_BYTES))
    except (OSError, HTTPException) as error:
        raise AwayError(str(error)) from error


def read_secret(name: str) -> str:
    """Read a secret from NAME, or from the file in NAME_FILE; not from an argument, which other users could see."""
    if path := os.environ.get(f"{name}_FILE", "").strip():
        try:
            text = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", "") or "it is no text"
            raise click.UsageError(f"{name}_FILE: {path} cannot be read ({reason}).") from error
    else:
        text = os.environ.get(name, "").strip()
    if text and not _PRINTABLE.fullmatch(text):
        raise click.UsageError(f"{name}: use printable characters without spaces.")
    return text


def read_url(text: str) -> str:
    """Validate the address of a server, and remove a trailing slash."""
    url = text.strip().rstrip("/")
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or parts.query or parts.fragment or parts.username or not _PRINTABLE.fullmatch(url):
        raise click.UsageError("CRONTY_URL: use an address like https://cronty.example.")
    return url
