"""Time of every MCP tool beside a bare echo tool: `python -m verification.bench.mcp [CALLS]` prints `name value unit`.

The database holds 10,000 jobs, 600 of them active. Bar: the median tool is at most 6 ms above the echo on SQLite, and 12 ms
on PostgreSQL, over the same wire in the same run. Over HTTP it also prints the time that each tool
takes of the server's processor, which other load on the machine changes little. With DATABASE_URL in the environment, as
`python -m tests.postgres --durable` sets it, the jobs are in that database.
"""

import asyncio
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias
from unittest import mock

import httpx2
from mcp import Client
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.forks import python
from tests.mcp.processes import PREPARE, ROOT, Site, free_port, serving, wait_for_port

JOBS = 10_000
CALLS = 100
WARM_UP = 5
Times: TypeAlias = dict[str, list[float]]
MOST_ABOVE_ECHO = {"sqlite": 6.0, "postgresql": 12.0}
FILL = """
import sys
import django
django.setup()
from datetime import timedelta
from django.contrib.auth import get_user_model
from django.db import connection
from schedules import clock
from schedules.models import Execution, Job
count, waiting = map(int, sys.argv[1:])
owner, now = get_user_model().objects.get(), clock.now()
# The rest have ended: the quota of active jobs is 1,000 unless the operator raises it.
kinds = {
    "webhook": {"url": "https://example.org"},
    "notify": {"message": "Water the plants", "topic": "home"},
    "prompt": {"prompt": "Check the build"},
}
jobs = Job.objects.bulk_create(
    [
        Job(
            owner=owner, public_id=f"job_{number}_0", name=f"Job {number}", task=task, kwargs=kwargs,
            trigger_type="cron", cron="0 9 * * *",
            status="pending" if number < 600 else "completed",
            next_run_at=now + timedelta(minutes=number + 60) if number < 600 else None,
            created_at=now - timedelta(days=1), updated_at=now,
        )
        for number, (task, kwargs) in zip(range(count), [*kinds.items()] * count)
    ],
    batch_size=500,
)
def executions(job, number, **fields):
    return [
        Execution(
            job=job, owner=owner, job_name=job.name, task=job.task, attempt=1,
            scheduled_for=now - timedelta(minutes=minute + 1), **fields,
        )
        for minute in range(number)
    ]
Execution.objects.bulk_create(
    executions(jobs[0], 30, status="succeeded", started_at=now, finished_at=now)
    + executions(jobs[2], waiting, status="waiting"),
    batch_size=500,
)
if connection.vendor == "postgresql":
    # As PostgreSQL would by itself, a minute later.
    connection.cursor().execute("VACUUM ANALYZE")
print(connection.vendor)
"""


@dataclass
class Round:
    """One call of every tool; some calls use the answers of others."""

    number: int
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def expression(self) -> str:
        """Return a schedule unique to this round, so that no job is similar to another and causes a warning."""
        return f"{self.number % 60} {self.number // 60 % 24} {1 + self.number // 1440 % 28} * *"

    @property
    def job(self) -> dict[str, Any]:
        return {"job_id": self.answers["schedule_job"]["job_id"]}

    @property
    def schedule(self) -> dict[str, Any]:
        return {"schedule_id": self.answers["schedule_cron_notification"]["schedule_id"]}

    @property
    def prompt(self) -> dict[str, Any]:
        found = re.match(r"Scheduled task #(\d+)", self.answers["schedule"]["result"])
        assert found, self.answers["schedule"]
        return {"id": int(found[1])}

    @property
    def claimed(self) -> dict[str, Any]:
        return {"execution_id": self.answers["claim_prompts"]["prompts"][0]["execution_id"]}


MESSAGE = {"message": "Water the plants", "notification_topic": "home"}
OLD_JOB = {"job_id": "job_0_0"}
ARGUMENTS: dict[str, Callable[[Round], dict[str, Any]]] = {
    "schedule_job": lambda now: {
        "name": "Ping",
        "task": "webhook",
        "kwargs": {"url": "https://example.org"},
        "trigger_type": "cron",
        "trigger_config": {"expression": now.expression},
    },
    "list_jobs": lambda now: {},
    "list_runs": lambda now: {},
    "list_changes": lambda now: {},
    "job_status": lambda now: OLD_JOB,
    "update_job": lambda now: now.job | {"name": f"Ping {now.number}"},
    "pause_job": lambda now: now.job,
    "resume_job": lambda now: now.job,
    "skip_runs": lambda now: now.job,
    "run_job": lambda now: now.job,
    "run_task": lambda now: {"task": "webhook", "kwargs": {"url": "https://example.org"}},
    "copy_job": lambda now: now.job | {"name": f"Copy {now.number}"},
    "cancel_job": lambda now: now.job,
    "restore_job": lambda now: now.job,
    "why": lambda now: OLD_JOB,
    "bulk_jobs": lambda now: {"action": "pause", "query": "nothing like this"},
    "get_preferences": lambda now: {},
    "set_preferences": lambda now: {"topic": "bench"},
    "upcoming": lambda now: {},
    "preview_schedule": lambda now: {
        "trigger_type": "cron",
        "trigger_config": {"expression": now.expression},
    },
    "schedule": lambda now: {"at": "in 20 minutes", "prompt": f"Check build {now.number}"},
    "schedule_list": lambda now: {},
    "schedule_edit": lambda now: now.prompt | {"at": "in 30 minutes"},
    "schedule_cancel": lambda now: now.prompt,
    "claim_prompts": lambda now: {},
    "complete_prompt": lambda now: now.claimed | {"result": "done"},
    "send_push_notification": lambda now: MESSAGE,
    "schedule_notification": lambda now: MESSAGE | {"delay": "1h", "title": f"Plants {now.number}"},
    "schedule_cron_notification": lambda now: MESSAGE | {"cron": now.expression, "timezone": "Europe/Berlin"},
    "list_scheduled_notifications": lambda now: {},
    "pause_schedule": lambda now: now.schedule,
    "resume_schedule": lambda now: now.schedule,
    "delete_schedule": lambda now: now.schedule,
    "get_current_time": lambda now: {},
    # Last, because it takes back what others still need.
    "undo_change": lambda now: {},
}


@dataclass(frozen=True)
class BenchSite(Site):
    """A site with high limits, whose notifications go to a local server."""

    ntfy: str = ""

    @property
    def environment(self) -> dict[str, str]:
        database = {name: os.environ[name] for name in ("DATABASE_URL",) if name in os.environ}
        more = {
            "CRONTY_MAX_ACTIVE_JOBS": "1000000",
            "CRONTY_MAX_RUNS_BY_HAND_PER_MINUTE": "1000000",
            "CRONTY_MAX_RUNS_PER_MINUTE": "0",
            "NTFY_URL": self.ntfy,
            "CRONTY_OUTBOUND_ALLOW": "127.0.0.1",
        }
        return super().environment | more | database


async def _trust(session: ClientSession, name: str, result: object) -> None:
    """Skip the Python client's schema check, which is slow and does not belong to the server's time."""


async def main() -> None:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else CALLS
    await bench({"stdio": over_stdio, "http": over_http}, jobs=JOBS, calls=calls)


async def bench(wires: dict[str, Any], *, jobs: int, calls: int) -> dict[str, float]:
    """Print and return the median milliseconds of every tool above the echo's, for each transport."""
    above: dict[str, float] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        ntfy_server() as ntfy,
        mock.patch.object(ClientSession, "validate_tool_result", _trust),
    ):
        site = BenchSite(Path(folder), "", ntfy=ntfy)
        site = BenchSite(site.folder, run_script(site, PREPARE).strip(), ntfy=ntfy)
        waiting = (calls + WARM_UP) * len(wires)
        vendor = run_script(site, FILL, str(jobs), str(waiting)).strip()
        numbers = itertools.count()
        for wire, connect in wires.items():
            async with connect(site) as pair:
                times, processor = await measure(pair, calls, numbers)
            base = statistics.median(times["echo"])
            for name, taken in times.items():
                print(f"mcp_{wire}_{name}_p50 {statistics.median(taken):.2f} ms")
                if name != "echo":
                    above[f"{wire}_{name}"] = statistics.median(taken) - base
                    print(f"mcp_{wire}_{name}_above_echo {above[f'{wire}_{name}']:.2f} ms")
            if pair.processes:
                show_processor_time(wire, processor)
    slowest = max(above, key=lambda name: above[name])
    for wire in wires:
        of_wire = [taken for name, taken in above.items() if name.startswith(f"{wire}_")]
        print(f"mcp_{wire}_median_above_echo {statistics.median(of_wire):.2f} ms")
    print(f"mcp_bar_{vendor} {MOST_ABOVE_ECHO[vendor]:.0f} ms")
    print(f"mcp_worst_above_echo {above[slowest]:.2f} ms ({slowest})")
    return above


def run_script(site: Site, script: str, *arguments: str) -> str:
    command = [*python(), "-c", script, *arguments]
    return subprocess.run(
        command, env=site.environment, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def show_processor_time(wire: str, processor: Times) -> None:
    """Print the processor time of the server for each tool above the echo's, which depends little on other load."""
    medians = {name: statistics.median(taken) for name, taken in processor.items()}
    base = medians.pop("echo")
    print(f"mcp_{wire}_echo_processor {base:.2f} ms")
    for name, taken in medians.items():
        print(f"mcp_{wire}_{name}_processor_above_echo {taken - base:.2f} ms")
    least, middle, most = min(medians.values()), statistics.median(medians.values()), max(medians.values())
    for which, taken in (("least", least), ("median", middle), ("most", most)):
        print(f"mcp_{wire}_processor_above_echo_{which} {taken - base:.2f} ms")


def processor_time(process: int) -> float:
    """Return the milliseconds for which a process and its threads have run; only Linux tells them this exactly."""
    threads = Path(f"/proc/{process}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e6


async def measure(pair: "Pair", calls: int, numbers: Iterator[int]) -> tuple[Times, Times]:
    """Call all tools in turn, so that a busy moment of the machine affects them alike.

    Return milliseconds until the answer, and of the server's processor if its process is known.
    """
    times: Times = {"echo": [], **{name: [] for name in ARGUMENTS}}
    processor: Times = {name: [] for name in times}
    for turn in range(calls + WARM_UP):
        now = Round(next(numbers))
        for name in times:
            is_echo = name == "echo"
            client, arguments = (
                (pair.echo, {"text": "hello"}) if is_echo else (pair.ours, ARGUMENTS[name](now))
            )
            process = pair.processes[is_echo] if pair.processes else 0
            used = processor_time(process)
            begun = time.perf_counter()
            result = await client.call_tool(name, arguments)
            taken = time.perf_counter() - begun
            used = processor_time(process) - used
            now.answers[name] = answer = result.structured_content or {}
            assert not result.is_error, (name, result)
            assert answer.get("error") is None, (name, answer)
            assert "Error" not in str(answer.get("result")), (name, answer)
            if turn >= WARM_UP:
                times[name].append(taken * 1000)
                processor[name].append(used)
    return times, processor


@dataclass(frozen=True)
class Pair:
    """Clients of our server and of the echo, and the ids of their processes, if they are known."""

    ours: Client
    echo: Client
    processes: tuple[int, int] | None = None


@asynccontextmanager
async def over_stdio(site: Site) -> AsyncIterator[Pair]:
    command, *arguments = [*python(), "-m", "verification.bench.mcp_echo"]
    bare = StdioServerParameters(command=command, args=arguments, cwd=str(ROOT))
    async with (
        Client(stdio_client(site.stdio("--user", "olga"))) as ours,
        Client(stdio_client(bare)) as echo,
    ):
        yield Pair(ours, echo)


@asynccontextmanager
async def over_http(site: Site) -> AsyncIterator[Pair]:
    async with AsyncExitStack() as stack:
        server, address = stack.enter_context(serving(site))
        plain_server, plain = stack.enter_context(echo_server())

        async def connect(url: str, **headers: str) -> Client:
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, trust_env=False))
            return await stack.enter_async_context(Client(streamable_http_client(url, http_client=http)))

        ours = await connect(address, Authorization=f"Bearer {site.token}")
        yield Pair(ours, await connect(plain), (server.pid, plain_server.pid))


@contextmanager
def echo_server() -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    port = free_port()
    process = subprocess.Popen(
        [*python(), "-m", "verification.bench.mcp_echo", str(port)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        wait_for_port(process, port)
        yield process, f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.communicate()


class Ntfy(BaseHTTPRequestHandler):
    """Accepts every notification immediately."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = json.dumps({"id": "1", "event": "message"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: Any) -> None:
        """Say nothing."""


@contextmanager
def ntfy_server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Ntfy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
