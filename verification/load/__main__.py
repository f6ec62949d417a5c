"""Load test: many people and agents at once while jobs fire: `python -m verification.load [--seconds 60 | --soak 3600]`.

Fifty people use the pages, twenty agents call tools, and of ten thousand jobs sixty fire every minute. No request
may end in a server error, and due jobs must still start on time. A soak runs longer, and no process may grow.
"""

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx2

from verification.bench import harness
from verification.load import growth

PAGES = ["/", "/?q=report", "/?status=paused", "/runs/", "/calendar/", "/activity/", "/inbox/", "/connect/"]
TOOLS: list[tuple[str, dict[str, Any]]] = [
    ("list_jobs", {"limit": 50}),
    ("list_jobs", {"status": "pending"}),
    ("upcoming", {"hours": 24}),
    ("get_current_time", {}),
    ("preview_schedule", {"trigger_type": "cron", "trigger_config": {"expression": "0 9 * * 1-5"}}),
]
VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
LATENESS_BAR = 1.0


class Meter:
    """The duration of each kind of request, and the failed requests."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = defaultdict(list)
        self.errors: list[str] = []
        self.refusals = 0

    async def take(self, name: str, ask: Callable[[], Awaitable[httpx2.Response]]) -> httpx2.Response | None:
        began = time.monotonic()
        try:
            answer = await ask()
        except httpx2.HTTPError as error:
            self.errors.append(f"{name}: {error!r}")
            return None
        self.times[name].append(time.monotonic() - began)
        self.refusals += 400 <= answer.status_code < 500
        if answer.status_code >= 500 or '"isError":true' in answer.text.replace(" ", ""):
            self.errors.append(f"{name}: {answer.status_code} {answer.text[:200]}")
        return answer

    def show(self) -> None:
        print(f"\n{'what':<28} {'count':>6} {'p50':>8} {'p95':>8} {'p99':>8} {'max':>8}   (ms)")
        everything = [value for values in self.times.values() for value in values]
        for name, values in [*sorted(self.times.items()), ("all", everything)]:
            if values:
                shares = [1000 * harness.percentile(values, share) for share in (0.5, 0.95, 0.99, 1.0)]
                print(f"{name:<28} {len(values):>6} " + " ".join(f"{share:>8.0f}" for share in shares))


async def person(
    meter: Meter, options: argparse.Namespace, number: int, cookie: str, jobs: list[str]
) -> None:
    """Read pages, open jobs, and sometimes perform an action."""
    dice = random.Random(number)
    async with httpx2.AsyncClient(
        base_url=options.url, cookies={"sessionid": cookie}, timeout=30, follow_redirects=True
    ) as web:
        await asyncio.sleep(dice.uniform(0, options.think))
        while time.monotonic() < options.until:
            job = dice.choice(jobs)
            if dice.random() < 0.3:
                await meter.take("page /jobs/…/", lambda job=job: web.get(f"/jobs/{job}/"))
            else:
                path = dice.choice(PAGES)
                await meter.take(f"page {path}", lambda path=path: web.get(path))
            if dice.random() < 0.2:
                verb = dice.choice(["pause", "resume", "run"])
                values = {"csrfmiddlewaretoken": web.cookies.get("csrftoken") or ""}
                await meter.take(
                    f"press {verb}",
                    lambda job=job, verb=verb, values=values: web.post(f"/jobs/{job}/{verb}/", data=values),
                )
            await asyncio.sleep(dice.uniform(0.5, 1.5) * options.think)


async def agent(meter: Meter, options: argparse.Namespace, number: int, token: str, jobs: list[str]) -> None:
    """Call tools, mostly to read, sometimes to create or change a job."""
    dice = random.Random(1000 + number)
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": VERSION,
    }
    changes: list[tuple[str, dict[str, Any]]] = [
        ("job_status", {}),
        ("update_job", {"label": "touched"}),
        ("pause_job", {}),
        ("resume_job", {}),
        ("run_job", {}),
    ]
    async with httpx2.AsyncClient(base_url=options.url, headers=headers, timeout=30) as http:
        await asyncio.sleep(dice.uniform(0, options.think / 2))
        while time.monotonic() < options.until:
            tool, arguments = dice.choice(TOOLS)
            if dice.random() < 0.4:
                tool, arguments = dice.choice(changes)
                arguments = {**arguments, "job_id": dice.choice(jobs)}
            params = {"name": tool, "arguments": arguments, "_meta": META}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            names = {"Mcp-Method": "tools/call", "Mcp-Name": tool}
            await meter.take(
                f"tool {tool}",
                lambda body=body, names=names: http.post("/mcp", json=body, headers=names),
            )
            await asyncio.sleep(dice.uniform(0.25, 0.75) * options.think)


async def watch(options: argparse.Namespace, pid: int, record: growth.Record) -> None:
    """Sample the figures that a leak would increase, and print their sums."""
    from django.conf import settings

    database = settings.DATABASES["default"]
    began = time.monotonic()
    print(f"{'second':>7} " + " ".join(f"{measure.name:>20}" for measure in growth.MEASURES), flush=True)
    while time.monotonic() < options.until:
        totals = await asyncio.to_thread(growth.sample, pid, database)
        record.add(totals)
        sums = [sum(values) for values in zip(*totals.values(), strict=True)]
        print(
            f"{time.monotonic() - began:>7.0f} " + " ".join(f"{value:>20.0f}" for value in sums), flush=True
        )
        await asyncio.sleep(options.every)


def make_people(options: argparse.Namespace) -> list[tuple[str, str, list[str]]]:
    """Create owners with their share of the jobs; return for each a session, a token and some job ids."""
    from django.conf import settings
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.auth.models import User
    from django.contrib.sessions.backends.db import SessionStore

    from schedules import clock
    from schedules.models import Event, Job
    from schedules.services import issue_token
    from schedules.services.people.profiles import profile_of

    people = []
    share = options.jobs // options.people
    for number in range(options.people):
        # Every tenth person is staff and sees all jobs.
        user = User.objects.create(username=f"person{number}", is_staff=number % 10 == 0)
        user.set_unusable_password()
        user.save()
        profile_of(user)
        now = clock.now()
        # One job of each owner and a few more are the sixty that fire every minute, one per second.
        firing = 1 + (number < options.firing - options.people)
        Job.objects.bulk_create(
            [_job(user, number, place, now, is_firing=place < firing) for place in range(share)]
        )
        session = SessionStore()
        session[SESSION_KEY] = str(user.pk)
        session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[-1]
        session[HASH_SESSION_KEY] = user.get_session_auth_hash()
        session.create()
        issued: Any = issue_token(user, name="load", scopes=["read", "write"], door=Event.Door.COMMAND)
        ids = list(Job.objects.filter(owner=user, every=None).values_list("public_id", flat=True)[:50])
        people.append((session.session_key, issued.value.text, ids))
    return people


def _job(user: Any, number: int, place: int, now: Any, *, is_firing: bool) -> Any:
    from schedules.models import Job

    values: dict[str, Any] = {
        "trigger_type": "cron",
        "cron": "0 4 1 1 *",
        "next_run_at": now + timedelta(days=40),
    }
    if is_firing:
        at = now + timedelta(seconds=20 + (number + 50 * place) % 60)
        values = {
            "trigger_type": "interval",
            "every": timedelta(minutes=1),
            "anchor_at": at,
            "next_run_at": at,
        }
    return Job(
        owner=user,
        public_id=f"job_{number}_{place}",
        name=f"report {place} of {user.username}",
        task="bench.coroutine",
        created_at=now,
        updated_at=now,
        **values,
    )


@asynccontextmanager
async def serving(options: argparse.Namespace) -> AsyncIterator[int]:
    """Run the web server and a cluster, as in production."""
    process = subprocess.Popen(
        [sys.executable, "manage.py", "up", "--port", str(options.port)],
        cwd=harness.PROJECT,
        stdout=subprocess.DEVNULL,
    )
    try:
        async with httpx2.AsyncClient() as http:
            for _ in range(600):
                try:
                    if (await http.get(f"{options.url}/readyz")).status_code == 200:
                        break
                except httpx2.HTTPError:
                    pass
                await asyncio.sleep(0.1)
            else:
                raise SystemExit("the product did not come up")
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(40)


async def drive(
    options: argparse.Namespace, people: list[tuple[str, str, list[str]]], record: growth.Record
) -> Meter:
    meter = Meter()
    async with serving(options) as pid:
        options.until = time.monotonic() + options.seconds
        tasks = [person(meter, options, n, cookie, jobs) for n, (cookie, _, jobs) in enumerate(people)]
        tasks += [
            agent(meter, options, n, token, jobs)
            for n, (_, token, jobs) in enumerate(people[: options.agents])
        ]
        if options.soak:
            tasks.append(watch(options, pid, record))
        await asyncio.gather(*tasks)
    return meter


def _seconds_late() -> list[float]:
    from schedules.models import Execution

    rows = Execution.objects.exclude(lateness=None).exclude(cause=Execution.Cause.MANUAL)
    return [late.total_seconds() for late in rows.values_list("lateness", flat=True)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--people", type=int, default=50)
    parser.add_argument("--agents", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--firing", type=int, default=60, help="jobs that fire every minute")
    parser.add_argument("--think", type=float, default=8.0, help="seconds a person looks at a page")
    parser.add_argument("--port", type=int, default=8765)
    parser.add_argument(
        "--soak", type=float, metavar="SECONDS", help="go on so long, and see whether it grows"
    )
    parser.add_argument("--every", type=float, help="seconds between two samples of a soak")
    options = parser.parse_args()
    options.seconds = options.soak or options.seconds
    options.every = options.every or min(30.0, options.seconds / 60)
    options.url = f"http://127.0.0.1:{options.port}"
    # Stop the product even if the run is interrupted.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    os.environ |= {"CRONTY_PORT": str(options.port), "CRONTY_ADMIN_PASSWORD": "not-used-by-anybody"}
    data = harness.prepare()
    try:
        people = make_people(options)
        print(f"{options.jobs} jobs, {options.people} people, {options.agents} agents, load {harness.load()}")
        record = growth.Record()
        meter = asyncio.run(drive(options, people, record))
        meter.show()
        late = _seconds_late()
        p99 = harness.percentile(late, 0.99) if late else 0.0
        print(
            f"\n{len(late)} slots fired, lateness p50 {harness.percentile(late or [0], 0.5):.3f} s, p99 {p99:.3f} s"
        )
        print(f"server errors {len(meter.errors)}, refused {meter.refusals}, load {harness.load()}")
        for words in meter.errors[:20]:
            print(f"  {words}")
        verdicts = list(record.verdicts())
        print(*verdicts, sep="\n")
        is_flat = all(verdict.is_flat for verdict in verdicts)
        return 1 if meter.errors or not late or p99 > LATENESS_BAR or not is_flat else 0
    finally:
        harness.discard(data)


if __name__ == "__main__":
    sys.exit(main())
