"""Benchmark of runners: what starting one adds, the page of a long transcript, and a cluster beside waiting approvals.

Usage: `python -m verification.bench.agents [start] [page] [approvals]`, on SQLite or DATABASE_URL. Prints `name value unit`.
"""

import os
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import psutil

from verification.bench import harness

DATA = harness.prepare()

from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.test import Client  # noqa: E402

from schedules import clock  # noqa: E402
from schedules.models import AgentRun, Execution, Profile  # noqa: E402
from tests.factories import ApprovalFactory, ExecutionFactory, JobFactory  # noqa: E402

STARTS = 20
VISITS = 15
APPROVALS = 200
TRANSCRIPT_BYTES = 5_000_000
# The program notes, as its first act, when its code began.
PROGRAM = """\
import os, sys, time
began = time.time()
sys.stdin.read()
with open({starts!r}, "a") as file:
    file.write(f"{{began}}\\n")
line = "x" * 99 + "\\n"
for _ in range({lines}):
    sys.stdout.write(line)
print("done")
"""
RUNNERS = """\
[small]
description = "Ends at once."
kind = "command"
program = {python!r}
arguments = [{small!r}]
preamble = false
allow = ["everyone", "agents"]
at_once = 1

[long]
description = "Prints a long transcript."
kind = "command"
program = {python!r}
arguments = [{long!r}]
preamble = false
allow = ["everyone", "agents"]
"""


def write_runners() -> Path:
    """Put two programs and their runners into force; return where the small one notes its starts."""
    starts = DATA / "starts"
    for name, lines in (("small", 0), ("long", TRANSCRIPT_BYTES // 100)):
        program = PROGRAM.format(starts=str(starts) if name == "small" else os.devnull, lines=lines)
        (DATA / f"{name}.py").write_text(program)
    text = RUNNERS.format(
        python=sys.executable, small=str(DATA / "small.py"), long=str(DATA / "long.py")
    ).replace("'", '"')
    (DATA / "runners.toml").write_text(text)
    (DATA / "runners.toml").chmod(0o600)
    os.environ["CRONTY_RUNNERS_FILE"] = str(DATA / "runners.toml")
    return starts


def prompts(owner: User, runner: str, count: int) -> list[Execution]:
    """Let prompts fall due one after the other, and return their rows when all have ended."""
    first = clock.now() + timedelta(seconds=2)
    for number in range(count):
        moment = first + timedelta(seconds=1.5 * number)
        JobFactory(
            owner=owner,
            task="prompt",
            kwargs={"prompt": "Look.", "runner": runner},
            once=True,
            run_at=moment,
            timeout=timedelta(minutes=5),
        )
    until = time.monotonic() + 60 + 2 * count
    while True:
        rows = list(Execution.objects.filter(job__owner=owner, status__in=Execution.FINAL))
        if len(rows) == count:
            break
        assert time.monotonic() < until, f"{len(rows)} of {count} have ended"
        time.sleep(0.2)
    assert {row.status for row in rows} == {"succeeded"}, {row.error for row in rows}
    return sorted(rows, key=lambda row: row.scheduled_for)


def measure_starts(owner: User, starts: Path) -> None:
    """Compare when the program's code begins after the start of its run with its start by hand."""
    alone = []
    for _ in range(STARTS):
        begin = time.time()
        subprocess.run(
            [sys.executable, str(DATA / "small.py")], input=b"Look.", check=True, capture_output=True
        )
        alone.append(float(starts.read_text().split()[-1]) - begin)
    starts.unlink()
    rows = prompts(owner, "small", STARTS)
    began = [float(line) for line in starts.read_text().split()]
    taken = [at - row.started_at.timestamp() for at, row in zip(began, rows, strict=True) if row.started_at]
    harness.show("start_alone_p50", 1000 * harness.median(alone), "ms")
    harness.show("start_by_runner_p50", 1000 * harness.median(taken), "ms")
    harness.show("start_added_p50", 1000 * (harness.median(taken) - harness.median(alone)), "ms")


def measure_page(owner: User) -> None:
    """Time the page of a run whose program printed 5 MB."""
    [row] = prompts(owner, "long", 1)
    assert AgentRun.objects.filter(execution=row.pk).exists()
    client = Client(headers={"host": "127.0.0.1"})
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    took = []
    for _ in range(VISITS):
        begin = time.perf_counter()
        page = client.get(f"/runs/{row.pk}/")
        took.append(time.perf_counter() - begin)
        assert page.status_code == 200
    harness.show("transcript_page_p50", 1000 * harness.median(took), "ms")
    harness.show("transcript_page_bytes", len(page.content), "B")


def make_approvals(owner: User) -> None:
    for _ in range(APPROVALS):
        job = JobFactory(owner=owner, task="prompt", kwargs={"prompt": "Push it."}, ended=True)
        run = ExecutionFactory(
            job=job,
            status="queued",
            attempt=1,
            reason="Waits for an approval.",
            available_at=clock.now() + timedelta(days=2),
        )
        ApprovalFactory(execution=run)


def main() -> None:
    wanted = sys.argv[1:] or ["start", "page", "approvals"]
    starts = write_runners()
    call_command("collectstatic", verbosity=0, interactive=False)
    print(f"# {harness.database_name()}, load {harness.load()}")
    owners = {}
    for name in wanted:
        owners[name] = User.objects.create(username=f"bench-{name}")
        Profile.objects.get_or_create(user=owners[name])
    with harness.cluster() as process:
        harness.wait_for_worker()
        if "start" in wanted:
            measure_starts(owners["start"], starts)
        if "page" in wanted:
            measure_page(owners["page"])
        if "approvals" in wanted:
            leader = psutil.Process(process.pid)
            harness.idle("idle_without_approvals", leader)
            make_approvals(owners["approvals"])
            harness.idle(f"idle_beside_{APPROVALS}_approvals", leader)
    print(f"# load {harness.load()}")
    harness.discard(DATA)


if __name__ == "__main__":
    main()
