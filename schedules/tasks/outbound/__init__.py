"""Outbound HTTP: every request to another host goes through `send`, which limits addresses, time and size."""

from collections.abc import Mapping
from importlib import import_module

from schedules.tasks.outbound.addresses import OutboundError, Refused
from schedules.tasks.outbound.targets import LONGEST_URL, Reply, Target, problem_with_url

__all__ = [
    "LONGEST_URL",
    "OutboundError",
    "Refused",
    "Reply",
    "Target",
    "prepare",
    "problem_with_url",
    "send",
]


def prepare() -> None:
    """Load what the first request would otherwise have to wait for."""
    import_module("schedules.tasks.outbound.requests").prepare()


async def send(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    content: bytes | None = None,
    trusted: bool = False,
    timeout: float | None = None,
    max_bytes: int | None = None,
) -> Reply:
    """Send one request and return the reply, whatever its status; `trusted` allows the operator's own hosts.

    `timeout` and `max_bytes`, the limit for the reply's body, default to the settings.
    """
    # Imported on first use: processes that send nothing start faster. A cluster imports it before it forks workers.
    requests = import_module("schedules.tasks.outbound.requests")
    reply: Reply = await requests.send(
        method, url, headers=headers, content=content, trusted=trusted, timeout=timeout, max_bytes=max_bytes
    )
    return reply
