"""What the ledger says that agents used equals what their program counted, also when workers are killed; `make agents` is long."""

import os
import random
import sys
import time
from collections import Counter, defaultdict
from datetime import timedelta
from decimal import Decimal

import psutil
import pytest
from django.db import connections

from schedules import clock
from schedules.models import AgentRun, Approval, Event, Execution, Job
from schedules.services.permissions import Actor
from schedules.services.runs.approvals import ONCE, answer_approval
from tests.clusters import SHIPPED_LEASE, Process, family_of, running_cluster, title_of
from tests.factories import JobFactory, UserFactory
from verification.agents.metered_program import MeteredProgram, Used

pytestmark = pytest.mark.django_db(transaction=True)

Verdict = AgentRun.Verdict

RUNS = int(os.environ.get("AGENT_RUNS", "40"))
RUNS_OF_A_JOB = 10
RUNS_PER_KILL = 25
# An hour for a thousand runs, on a machine that has much else to do.
SECONDS_PER_RUN = 3.6
RUNNERS = ("cumulative-asking", "alone-asking", "cumulative-continuing", "alone-continuing")


@pytest.fixture
def program(tmp_path) -> MeteredProgram:
    return MeteredProgram(tmp_path)


@pytest.mark.verify
@pytest.mark.parametrize("with_kills", [False, True], ids=["undisturbed", "with kills"])
def test_ledger_agrees_with_what_the_program_counted(with_kills, program, capsys):
    settings = {"CRONTY_RUNNERS_FILE": str(program.runners_file), **SHIPPED_LEASE}
    jobs = make_jobs(RUNS // RUNS_OF_A_JOB)
    with running_cluster(**settings) as cluster:
        kills = drive(jobs, cluster if with_kills else None)

    rows = defaultdict(list)
    for row in AgentRun.objects.order_by("started_at", "pk"):
        rows[row.session_id].append(row)
    cut_off = [row for row in AgentRun.objects.all() if is_cut_off(row)]
    assert not AgentRun.objects.filter(ended_at=None).exists()
    assert bool(cut_off) <= with_kills
    counted = program.used
    # A run that was killed before anything of it was stored has no session in the ledger.
    assert len(set(counted) - set(rows)) <= len(rows.pop("", []))
    exact = {name for name in rows if is_exact(rows[name])}
    assert {name: sum_of(rows[name]) for name in exact} == {
        name: (counted[name].tokens, counted[name].cost) for name in exact
    }
    for name in set(rows) - exact:
        assert sum_of(rows[name])[0] <= counted[name].tokens
    # Each call was allowed, and made once at most.
    made = Counter(program.made)
    assert set(made.values()) == {1}
    assert len(made) <= Approval.objects.filter(status=Approval.Status.USED).count()
    with capsys.disabled():
        sys.stdout.write(f"\n{describe(rows, counted, exact, kills)}\n")


def make_jobs(count: int) -> list[Job]:
    owner = UserFactory()
    later = clock.now() + timedelta(days=365)
    return [
        JobFactory(
            owner=owner,
            task="prompt",
            kwargs={"prompt": "Push it.", "runner": RUNNERS[number % len(RUNNERS)]},
            next_run_at=later,
        )
        for number in range(count)
    ]


def drive(jobs: list[Job], to_disturb: "Process | None") -> int:
    """Start the runs of each job one after the other, allow what they ask, and kill workers; return how many."""
    kills, dice = 0, random.Random(39)
    wanted = len(jobs) * RUNS_OF_A_JOB
    until = time.monotonic() + 60 + wanted * SECONDS_PER_RUN
    while (ended := Execution.objects.filter(task="prompt", status__in=Execution.FINAL).count()) < wanted:
        assert time.monotonic() < until, f"only {ended} of {wanted} runs have ended"
        if to_disturb and ended >= (kills + 1) * RUNS_PER_KILL and kill_a_worker(to_disturb, dice):
            kills += 1
        allow_all()
        start_next(jobs)
        time.sleep(0.2)  # noqa: TID251
    return kills


def allow_all() -> None:
    for approval in Approval.objects.filter(status=Approval.Status.WAITING).select_related("owner"):
        person = Actor(approval.owner, Event.Door.WEB)
        # It may have been withdrawn, because its run was lost.
        answer_approval(person, approval.pk, ONCE, seen=approval.digest)
    connections.close_all()


def start_next(jobs: list[Job]) -> None:
    """Make each job due that has no run under way and none left to do."""
    counts = Counter(Execution.objects.values_list("job", flat=True))
    busy = set(Execution.objects.exclude(status__in=Execution.FINAL).values_list("job", flat=True))
    now = clock.now()
    idle = [job.pk for job in jobs if job.pk not in busy and counts[job.pk] < RUNS_OF_A_JOB]
    Job.objects.filter(pk__in=idle, next_run_at__gt=now + timedelta(days=1)).update(next_run_at=now)
    # Its next slot must not come by itself.
    due = Job.objects.filter(pk__in=[job.pk for job in jobs], next_run_at__gt=now)
    due.update(next_run_at=now + timedelta(days=365))


def kill_a_worker(cluster: Process, dice: random.Random) -> bool:
    """Kill a worker that has an agent at work; return whether there is one."""
    agents = [process for process in family_of(cluster.pid) if "--output-format" in title_of(process)]
    try:
        # Behind the two processes of the guard.
        dice.choice(agents).parents()[2].kill()
    except (IndexError, psutil.Error):
        return False
    return True


def is_cut_off(row: AgentRun) -> bool:
    return row.verdict == Verdict.UNKNOWN and row.words.startswith("The worker ")


def is_exact(rows: list[AgentRun]) -> bool:
    """Return whether everything that this session used can be known."""
    if not any(map(is_cut_off, rows)):
        return True
    return rows[-1].runner.startswith("cumulative") and not is_cut_off(rows[-1])


def sum_of(rows: list[AgentRun]) -> tuple[int, Decimal]:
    return sum(row.tokens for row in rows), sum((row.cost or Decimal() for row in rows), Decimal())


def describe(rows: dict[str, list[AgentRun]], counted: dict[str, Used], exact: set[str], kills: int) -> str:
    resumed = sum(len(each) - 1 for each in rows.values())
    seen = sum(sum_of(each)[0] for each in rows.values())
    tokens = sum(used.tokens for used in counted.values())
    money = sum((counted[name].cost for name in exact), Decimal())
    return (
        f"{Execution.objects.filter(task='prompt').count():,} runs, {len(counted):,} sessions resumed {resumed:,} times,"
        f" {kills} workers killed: {tokens:,} tokens counted, {seen:,} in the ledger;"
        f" {len(exact):,} sessions agree to the token and to ${money:,.6f}"
    )
