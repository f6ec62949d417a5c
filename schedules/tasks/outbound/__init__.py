"""HTTP requests to other hosts; all of them go through `send`, which limits addresses, time and size."""

from collections.abc import Mapping
from importlib import import_module

from schedules.tasks.outbound.errors import OutboundError, Refused
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
    """Load what the first request would wait for."""
    import_module("schedules.tasks.outbound.requests").prepare()


async def send(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    content: bytes | None = None,
    trusted: bool = False,
    timeout: float | None = None,
    most: int | None = None,
) -> Reply:
    """Send one request and return the reply, whatever its status; `trusted` allows the operator's own hosts.

    Without limits of its own for the time and the bytes of the reply, it has those of the settings.
    """
    # Most processes send nothing and start faster without the library. A cluster imports it before it forks workers.
    requests = import_module("schedules.tasks.outbound.requests")
    reply: Reply = await requests.send(
        method, url, headers=headers, content=content, trusted=trusted, timeout=timeout, most=most
    )
    return reply
