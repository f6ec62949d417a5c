"""Examine connections: the ntfy server, the mail server, and Cronty's own public address."""

import json
import secrets
from collections.abc import Iterator
from urllib.parse import urlsplit

from asgiref.sync import async_to_sync
from django.conf import settings
from django.core.mail import get_connection

from schedules.management.doctor import Finding, Level, ok, problem, warning
from schedules.services.installation.command_words import how_to_run
from schedules.tasks import outbound
from schedules.tasks.outbound.destinations import is_loopback
from schedules.web.health import ALIVE

SECONDS = 10
PUBLIC_NTFY = "ntfy.sh"


def examine() -> Iterator[Finding]:
    ntfy = _ntfy()
    yield ntfy
    if ntfy.level == Level.OK and urlsplit(settings.NTFY_URL).hostname != PUBLIC_NTFY:
        yield from _ntfy_for_phones(settings.NTFY_URL.rstrip("/"))
    if getattr(settings, "CRONTY_PASSWORD_RESET", False):
        yield _mail()
    if url := getattr(settings, "CRONTY_URL", ""):
        yield _public_address(url)


def _ntfy() -> Finding:
    url, token = settings.NTFY_URL.rstrip("/"), getattr(settings, "NTFY_TOKEN", "")
    remedy = "Check NTFY_URL, and whether this host may connect to it."
    try:
        reply = _get(f"{url}/v1/health")
        if reply.status != 200 or '"healthy":true' not in reply.text.replace(" ", ""):
            return problem("ntfy", f"{url} answers {reply.status}, not as an ntfy server does.", remedy)
        if token and _get(f"{url}/v1/account", {"Authorization": f"Bearer {token}"}).status in (401, 403):
            return problem(
                "ntfy", f"{url} refuses NTFY_TOKEN.", "Create a new token there, and set NTFY_TOKEN."
            )
    except outbound.OutboundError as error:
        return problem("ntfy", f"{url} cannot be reached: {error}", remedy)
    return ok("ntfy", f"{url} is healthy{' and accepts the token' if token else ''}.")


def _ntfy_for_phones(url: str) -> Iterator[Finding]:
    """Examine `base-url` of a self-hosted server through its Matrix endpoint, the only one that reveals it."""
    address = f"{url}/_matrix/push/v1/notify"
    # No topic can have such a name, so nobody gets a message.
    key = f"{url}/!{secrets.token_hex(4)}"
    device = {"notification": {"devices": [{"app_id": "cronty", "pushkey": key}]}}
    remedy = f"Set base-url: {url} in its server.yml, the address that phones subscribe with."
    try:
        probe = _get(address)
        if probe.status >= 500 and "base-url" in probe.text:
            yield warning("ntfy", "base-url is not set there: iPhones and attachments need it.", remedy)
            return
        if probe.status != 200 or '"unifiedpush"' not in probe.text:
            # An old version, or a proxy that forwards only topics.
            return
        answer = async_to_sync(outbound.send)(
            "POST", address, content=json.dumps(device).encode(), trusted=True
        )
    except outbound.OutboundError:
        return
    if key in answer.text:
        yield warning(
            "ntfy", f"base-url there is not {url}: iPhones get their messages late or not at all.", remedy
        )
        return
    yield ok(
        "ntfy",
        "base-url fits. iPhones also need upstream-base-url: https://ntfy.sh there, which no other host can see.",
    )


def _mail() -> Finding:
    where = f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT}"
    try:
        with get_connection(timeout=SECONDS):
            return ok("mail", f"{where} accepts the login.")
    # The library raises its own errors, and socket and TLS errors.
    except Exception as error:
        return problem(
            "mail", f"{where} cannot be used: {error}", "Check EMAIL_URL; without it, nobody is sent mail."
        )


def _public_address(url: str) -> Finding:
    try:
        reply = _get(f"{url}/healthz")
    except outbound.OutboundError as error:
        if is_loopback(settings.CRONTY_HOST) and f"{settings.CRONTY_HOST}:{settings.CRONTY_PORT}" in url:
            return warning(
                "address",
                f"Nothing answers at {url}.",
                f"Start `{how_to_run('up')}`, or `{how_to_run('web')}`. If it listens at another port, set CRONTY_PORT or CRONTY_URL.",
            )
        return problem(
            "address",
            f"{url} cannot be reached from here: {error}",
            "Check CRONTY_URL, its name in DNS, the proxy, and that the web process runs.",
        )
    if reply.status != 200 or reply.text != ALIVE:
        what = (
            f"redirects to {reply.headers['location']}"
            if "location" in reply.headers
            else f"answers {reply.status}"
        )
        return problem(
            "address", f"{url} {what} instead of reaching Cronty.", "Check the proxy and CRONTY_URL."
        )
    return ok("address", f"{url} answers.")


def _get(url: str, headers: dict[str, str] | None = None) -> outbound.Reply:
    return async_to_sync(outbound.send)("GET", url, headers=headers or {}, trusted=True)
