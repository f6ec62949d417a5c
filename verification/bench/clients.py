"""HTTP clients of the benchmarks: connections that are kept, with requests as fast as they are answered or at a rate."""

import asyncio
import itertools
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


@dataclass
class Outcomes:
    """How many answers had which status, and how many seconds each took from when it was meant to be sent."""

    statuses: Counter[int] = field(default_factory=Counter)
    took: list[float] = field(default_factory=list)


def request_bytes(method: str, path: str, port: int, headers: dict[str, str] | None = None) -> bytes:
    """Return a request without a body, as it is sent."""
    fields = {
        "Host": f"127.0.0.1:{port}",
        **({"Content-Length": "0"} if method == "POST" else {}),
        **(headers or {}),
    }
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def send_all(
    port: int, requests: Sequence[bytes], *, seconds: float, connections: int, rate: float | None = None
) -> Outcomes:
    """Send these requests in turn for some seconds; at a rate, late answers delay no later request."""
    return asyncio.run(_send_all(port, itertools.cycle(requests), seconds, connections, rate))


async def _send_all(
    port: int, requests: Iterator[bytes], seconds: float, connections: int, rate: float | None
) -> Outcomes:
    outcomes = Outcomes()
    begin = time.perf_counter()
    # When each request is meant to be sent; at once without a rate.
    moments = (begin + number / rate if rate else 0.0 for number in itertools.count())
    clients = (_client(port, requests, moments, begin + seconds, outcomes) for _ in range(connections))
    await asyncio.gather(*clients)
    return outcomes


async def _client(
    port: int, requests: Iterator[bytes], moments: Iterator[float], until: float, outcomes: Outcomes
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while (meant := next(moments) or time.perf_counter()) < until:
        await asyncio.sleep(max(0.0, meant - time.perf_counter()))
        writer.write(next(requests))
        head = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if length:
            await reader.readexactly(int(length[1]))
        outcomes.statuses[int(head[9:12])] += 1
        outcomes.took.append(time.perf_counter() - meant)
    writer.close()
