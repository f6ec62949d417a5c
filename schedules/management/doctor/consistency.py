"""Examine the settings: Django's checks, and settings that contradict each other."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import ERROR, WARNING, run_checks
from django.db import connection

from schedules.management.arguments import host_in_url
from schedules.management.doctor import Finding, ok, problem, warning
from schedules.tasks.outbound.destinations import is_loopback


def examine() -> Iterator[Finding]:
    findings = [*_system_checks(), *_contradictions()]
    yield from findings
    if not findings:
        yield ok("settings", "They fit together.")


def _system_checks() -> Iterator[Finding]:
    # Django's deployment checks demand https, which a loopback address does not have.
    is_deployed = urlsplit(_setting("CRONTY_URL", "")).scheme == "https"
    for message in run_checks(include_deployment_checks=is_deployed):
        # W005 is about open files, which the doctor examines itself.
        if message.is_silenced() or message.level < WARNING or message.id == "schedules.W005":
            continue
        make = problem if message.level >= ERROR else warning
        text = " ".join(str(message.msg).split())
        yield make(
            "settings", f"{text} ({message.id})", str(message.hint or "See the documentation of this check.")
        )


def _contradictions() -> Iterator[Finding]:
    url = getattr(settings, "CRONTY_URL", "")
    if not url:
        return
    address, host = urlsplit(url), _setting("CRONTY_HOST", "")
    is_public = not is_loopback(str(address.hostname))
    proxies = _setting("CRONTY_TRUSTED_PROXIES", [])
    if address.scheme == "https" and not proxies:
        yield problem(
            "settings",
            "CRONTY_URL is https, but CRONTY_TRUSTED_PROXIES names no proxy: pages redirect without end.",
            "Set CRONTY_TRUSTED_PROXIES to the proxy's address as Cronty sees it, like 127.0.0.1.",
        )
    if address.scheme == "http" and is_public:
        yield warning(
            "settings",
            f"Passwords and tokens travel unencrypted to {url}.",
            "Put a TLS proxy in front, and set CRONTY_URL to its https address.",
        )
        if _setting("CRONTY_OAUTH", False):
            yield problem("settings", "CRONTY_OAUTH needs an https CRONTY_URL.", "Set CRONTY_OAUTH=off.")
    if address.scheme == "http" and is_public and is_loopback(host) and not proxies:
        yield warning(
            "settings",
            f"CRONTY_URL is {url}, but the web process listens on {host} only.",
            "Set CRONTY_HOST to an address that others reach, or CRONTY_TRUSTED_PROXIES to your proxy.",
        )
    # A loopback address that is not the default may be right, such as behind the published port of a container.
    if (
        not is_public
        and not is_loopback(host)
        and url == f"http://{host_in_url(host)}:{settings.CRONTY_PORT}"
    ):
        yield warning(
            "settings",
            f"The web process listens on {host}, but refuses requests that other machines send to its name or address.",
            "Set CRONTY_URL to the address that they open, or CRONTY_HOST to 127.0.0.1.",
        )
    if address.scheme == "http" and settings.SECURE_HSTS_SECONDS:
        yield warning(
            "settings", "CRONTY_HSTS_SECONDS has no effect without https.", "Remove it, or use https."
        )
    if settings.DEBUG and is_public:
        yield problem(
            "settings", "CRONTY_DEBUG shows source code and settings to strangers.", "Unset CRONTY_DEBUG."
        )
    if connection.vendor == "sqlite" and _setting("CRONTY_DATABASE_POOLED", False):
        yield warning("settings", "CRONTY_DATABASE_POOLED has no effect on SQLite.", "Unset it.")
    if _setting("CRONTY_CATCH_UP_HOURS", 0) > 24 * _setting("CRONTY_HISTORY_DAYS", 10**6):
        yield warning(
            "settings",
            "CRONTY_CATCH_UP_HOURS reaches further back than CRONTY_HISTORY_DAYS keeps runs.",
            "Raise CRONTY_HISTORY_DAYS.",
        )
    if _setting("CRONTY_AGENT_USERS", []) and not _setting("CRONTY_AGENT_COMMAND", []):
        yield warning(
            "settings", "CRONTY_AGENT_USERS has no effect without CRONTY_AGENT_COMMAND.", "Set both or none."
        )


def _setting(name: str, default: Any) -> Any:
    return getattr(settings, name, default)
