"""How fast do the MCP tools answer, beside a bare echo tool? `python -m verification.bench.mcp [CALLS]` prints `name value unit`.

The list has 10,000 jobs, 500 of them active. Bar: the median of ours is at most three times the echo's, over the same wire in the same run.
With DATABASE_URL in the environment, as `python -m tests.postgres --durable` sets it, the jobs are in that database.
"""

import asyncio
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.mcp.processes import PREPARE, ROOT, Site, free_port, serving, wait_for_port

JOBS = 10_000
# The rest have ended: the quota of active jobs is 1,000 unless the operator raises it.
ACTIVE = 500
ROUND = 20
FILL = f"""
import django
django.setup()
from datetime import timedelta
from django.contrib.auth.models import User
from django.db import connection
from schedules import clock
from schedules.models import Job
owner, now = User.objects.get(), clock.now()
Job.objects.bulk_create(
    [
        Job(
            owner=owner, public_id=f"job_{{number}}_0", name=f"Job {{number}}", task="webhook",
            kwargs={{"url": "https://example.org"}}, trigger_type="cron", cron="0 9 * * *",
            status="pending" if number < {ACTIVE} else "completed",
            next_run_at=now + timedelta(minutes=number) if number < {ACTIVE} else None,
            created_at=now - timedelta(days=1), updated_at=now,
        )
        for number in range({JOBS})
    ],
    batch_size=500,
)
if connection.vendor == "postgresql":
    # As PostgreSQL would by itself, a minute later.
    connection.cursor().execute("VACUUM ANALYZE")
"""
CALLS: dict[str, dict[str, Any]] = {
    "job_status": {"job_id": "job_17_0"},
    "schedule_job": {
        "name": "WorkerLoop",
        "task": "webhook",
        "kwargs": {"url": "https://example.org"},
        "trigger_type": "cron",
        "trigger_config": {"expression": "30 8 * * 1-5"},
    },
    "list_jobs": {},
}


class BenchSite(Site):
    """The same site with room for the bench."""

    @property
    def environment(self) -> dict[str, str]:
        database = {name: os.environ[name] for name in ("DATABASE_URL",) if name in os.environ}
        return {**super().environment, "CRONTY_MAX_ACTIVE_JOBS": "1000000", **database}


async def _trust(session: ClientSession, name: str, result: object) -> None:
    """Take an answer as it is: the Python client's check against the schema is slow, and not the server's time."""


ClientSession.validate_tool_result = _trust  # type: ignore[method-assign,assignment]


async def main() -> None:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    with tempfile.TemporaryDirectory() as folder:
        site = BenchSite(Path(folder), "")
        site = BenchSite(site.folder, token=run_script(site, PREPARE).strip())
        run_script(site, FILL)
        worst = 0.0
        for wire, connect in (("stdio", over_stdio), ("http", over_http)):
            async with connect(site) as (ours, echo):
                worst = max(worst, await measure(wire, ours, echo, calls))
    print(f"mcp_worst_ratio {worst:.2f} x")


def run_script(site: Site, script: str) -> str:
    command = [sys.executable, "-c", script]
    return subprocess.run(
        command, env=site.environment, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


async def measure(wire: str, ours: Client, echo: Client, calls: int) -> float:
    """Call all tools in turns, so that a busy moment of the machine hits them alike."""
    times: dict[str, list[float]] = {"echo": [], **{name: [] for name in CALLS}}
    await run(echo, "echo", {"text": "hello"}, ROUND)
    for name, arguments in CALLS.items():
        await run(ours, name, arguments, ROUND)
    for _ in range(calls // ROUND):
        times["echo"] += await run(echo, "echo", {"text": "hello"}, ROUND)
        for name, arguments in CALLS.items():
            times[name] += await run(ours, name, arguments, ROUND)
    base = statistics.median(times["echo"])
    for name, taken in times.items():
        print(f"mcp_{wire}_{name}_rate {len(taken) / sum(taken):.0f} calls/s")
        print(f"mcp_{wire}_{name}_p50 {statistics.median(taken) * 1000:.2f} ms")
        print(f"mcp_{wire}_{name}_p99 {statistics.quantiles(taken, n=100)[98] * 1000:.2f} ms")
        print(f"mcp_{wire}_{name}_ratio {statistics.median(taken) / base:.2f} x")
    return max(statistics.median(taken) / base for taken in times.values())


async def run(client: Client, name: str, arguments: dict[str, Any], count: int) -> list[float]:
    taken = []
    for _ in range(count):
        if name == "schedule_job":
            # A schedule of its own each time: twins would be compared and warned of.
            arguments = {**arguments, "trigger_config": {"expression": _expression(next(_numbers))}}
        begun = time.perf_counter()
        result = await client.call_tool(name, arguments)
        taken.append(time.perf_counter() - begun)
        assert not result.is_error, result
        assert (result.structured_content or {}).get("error") is None, result
    return taken


_numbers = itertools.count()


def _expression(number: int) -> str:
    return f"{number % 60} {number // 60 % 24} {1 + number // 1440 % 28} * *"


@asynccontextmanager
async def over_stdio(site: Site) -> AsyncIterator[tuple[Client, Client]]:
    bare = StdioServerParameters(
        command=sys.executable, args=["-m", "verification.bench.mcp_echo"], cwd=str(ROOT)
    )
    async with (
        Client(stdio_client(site.stdio("--user", "olga"))) as ours,
        Client(stdio_client(bare)) as echo,
    ):
        yield ours, echo


@asynccontextmanager
async def over_http(site: Site) -> AsyncIterator[tuple[Client, Client]]:
    async with AsyncExitStack() as stack:
        _, address = stack.enter_context(serving(site))
        plain = stack.enter_context(echo_server())

        async def connect(url: str, **headers: str) -> Client:
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, trust_env=False))
            return await stack.enter_async_context(Client(streamable_http_client(url, http_client=http)))

        yield await connect(address, Authorization=f"Bearer {site.token}"), await connect(plain)


@contextmanager
def echo_server() -> Iterator[str]:
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "verification.bench.mcp_echo", str(port)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        wait_for_port(process, port)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.communicate()


if __name__ == "__main__":
    asyncio.run(main())
