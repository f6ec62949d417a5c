"""Rehearsals as people read them: why runs are left out, what collides, and what agents will spend."""

import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from schedules.models import AgentRun, Event, Execution, Job
from schedules.result import Code, Err
from schedules.services import Actor
from schedules.services.job_list import JobQuery
from schedules.services.rehearsal.agents import Spend
from schedules.services.rehearsal.rehearsal import LONGEST_PERIOD, rehearse
from schedules.services.runs.agent_stops import stop_agents
from tests.factories import ExecutionFactory, JobFactory, UserFactory

NOW = datetime(2026, 2, 4, 9, 0, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
RUNNER = '[one]\ndescription = "x"\nkind = "claude"\nallow = ["everyone"]\ndefault = true\n'

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def now(time_machine):
    time_machine.move_to(NOW, tick=False)


@pytest.fixture
def actor(db):
    return Actor(UserFactory(), Event.Door.WEB)


def hourly(actor, **fields):
    return JobFactory(
        **{"owner": actor.user, "cron": "0 * * * *", "next_run_at": NOW + HOUR, "created_at": NOW} | fields
    )


def prompts(actor, **fields):
    return hourly(actor, task="prompt", **{"kwargs": {"prompt": "Look"}} | fields)


def worked(job, **fields):
    """Store a run of an agent that took five minutes."""
    execution = ExecutionFactory(job=job, scheduled_for=NOW - DAY, cause="manual")
    values = {
        "started_at": NOW - DAY,
        "ended_at": NOW - DAY + timedelta(minutes=5),
        "tokens_in": 900,
        "tokens_out": 100,
        "cost": Decimal("0.25"),
        "verdict": "done",
    }
    AgentRun.objects.create(
        execution=execution,
        attempt=1,
        job=job,
        owner=job.owner,
        runner="one",
        kind="claude",
        **values | fields,
    )


def line_of(job, told):
    return next(line for line in told.lines if line.job_id == job.public_id)


def reasons(job, told):
    return {each.reason: each.count for each in line_of(job, told).left_out}


def test_nothing_is_written_and_jobs_cost_no_queries_of_their_own(actor, use_runners):
    use_runners(RUNNER)
    worked(prompts(actor))
    with CaptureQueriesContext(
        connection,
    ) as few:
        rehearse(actor, NOW)
    for number in range(20):
        worked(prompts(actor, name=f"Prompt {number}"))
        hourly(actor)
    before = list(Job.objects.values()), Execution.objects.count()

    with CaptureQueriesContext(connection) as many:
        rehearse(actor, NOW)

    assert len(many) == len(few)
    assert not [query for query in many if not query["sql"].startswith("SELECT")]
    assert (list(Job.objects.values()), Execution.objects.count()) == before


def test_period_is_a_week_unless_another_is_asked_for(actor):
    job = hourly(actor)

    assert line_of(job, rehearse(actor, NOW).value).count == 7 * 24 - 1
    later = rehearse(actor, NOW, start=NOW + DAY, end=NOW + 2 * DAY).value
    assert (line_of(job, later).count, line_of(job, later).first) == (24, NOW + DAY)


@pytest.mark.parametrize(
    ("start", "end"), [(None, NOW), (NOW + DAY, NOW + DAY), (None, NOW + LONGEST_PERIOD + HOUR)]
)
def test_period_that_is_over_or_too_long_is_refused(actor, start, end):
    refusal = rehearse(actor, NOW, start=start, end=end)

    assert isinstance(refusal, Err)
    assert (refusal.code, list(refusal.errors)) == (Code.INVALID, ["to"])


def test_runs_that_take_longer_than_their_interval_are_left_out(actor):
    job = hourly(actor, last_duration=1.5 * HOUR)

    told = rehearse(actor, NOW, end=NOW + DAY).value

    assert (line_of(job, told).count, reasons(job, told)) == (12, {"The previous run was still running.": 11})


def test_run_that_is_under_way_is_in_the_way_of_the_next(actor):
    job = hourly(actor, last_duration=2 * HOUR)
    ExecutionFactory(job=job, status="running", attempt=1, started_at=NOW - 0.25 * HOUR, finished_at=None)

    told = rehearse(actor, NOW, end=NOW + 1.5 * HOUR).value

    assert reasons(job, told) == {"The previous run was still running.": 1}


def test_pause_that_ends_is_a_reason(actor):
    job = hourly(actor, status="paused", next_run_at=None, paused_at=NOW, paused_until=NOW + 5.5 * HOUR)

    told = rehearse(actor, NOW, end=NOW + DAY).value

    assert reasons(job, told) == {"Paused: no reason given": 6}
    assert line_of(job, told).count == 18


def test_stopped_agents_start_nothing(actor, use_runners):
    use_runners(RUNNER)
    job, inbox = prompts(actor), prompts(actor, kwargs={"prompt": "Look", "runner": "inbox"})
    stop_agents(actor)

    told = rehearse(actor, NOW, end=NOW + DAY).value

    assert reasons(job, told) == {f"{actor.label} stopped all agents.": 23}
    assert line_of(inbox, told).count == 23


@pytest.mark.parametrize(
    ("caps", "starts", "words"),
    [
        ("per_day = { runs = 4 }", 8, "The runner one has used up today's 4 runs."),
        ("per_day = { tokens = 2500 }", 6, "The runner one has used up today's 2500 tokens."),
        ("per_person_per_day = { money = 0.5 }", 4, "You, with the runner one, have used up today's $0.50."),
        (
            "per_job_per_day = { minutes = 10 }",
            4,
            "This job, with the runner one, has used up today's 10 minutes.",
        ),
    ],
)
def test_limits_of_each_day_leave_out_what_is_beyond_them(actor, use_runners, settings, caps, starts, words):
    settings.CRONTY_TIME_ZONE = "UTC"
    use_runners(f"{RUNNER}{caps}\n")
    job = prompts(actor)
    worked(job)

    told = rehearse(actor, NOW, end=NOW.replace(hour=0) + 2 * DAY).value

    assert line_of(job, told).count == starts
    assert reasons(job, told) == {words: 15 + 24 - 1 - starts + 1 - 1}


def test_what_was_used_today_counts(actor, use_runners, settings):
    settings.CRONTY_TIME_ZONE = "UTC"
    use_runners(f"{RUNNER}per_day = {{ runs = 4 }}\n")
    job = prompts(actor)
    for minutes in (1, 2, 3):
        worked(job, started_at=NOW - timedelta(minutes=minutes), ended_at=NOW)

    assert line_of(job, rehearse(actor, NOW, end=NOW + 10 * HOUR).value).count == 1


def test_unknown_runner_is_named(actor, use_runners):
    use_runners(RUNNER)
    job = prompts(actor, kwargs={"prompt": "Look", "runner": "two"})

    assert line_of(job, rehearse(actor, NOW).value).problem.startswith("Unknown runner: two.")


def test_spend_is_the_median_of_past_runs_and_unknown_without_any(actor, use_runners):
    use_runners(RUNNER)
    job, new = prompts(actor), prompts(actor)
    for cost in ("0.10", "0.20", "9.00"):
        worked(job, cost=Decimal(cost))

    told = rehearse(actor, NOW, end=NOW + 11 * HOUR).value

    spend = line_of(job, told).spend
    assert (spend.runs, spend.tokens, spend.money, spend.minutes) == (10, 10_000, Decimal("2.00"), 50)
    assert line_of(new, told).spend == Spend(10)
    assert (told.spend.runs, told.spend.tokens, told.spend.money) == (20, 10_000, Decimal("2.00"))
    assert (told.spend.unknown, told.spend.money_unknown) == (1, 0)


def test_minutes_in_which_many_jobs_start_are_listed(actor):
    for number in range(11):
        hourly(
            actor, name=f"Job {number}", cron="30 3 * * *", next_run_at=NOW.replace(hour=3, minute=30) + DAY
        )
    hourly(actor)

    collisions = rehearse(actor, NOW, end=NOW + 2 * DAY).value.collisions

    assert [(crowd.at, crowd.starts) for crowd in collisions.crowds] == [
        (NOW.replace(hour=3, minute=30) + DAY, 11),
        (NOW.replace(hour=3, minute=30) + 2 * DAY, 11),
    ]
    assert len(collisions.crowds[0].names) == 5
    assert collisions.crowded_minutes == 2


def test_lane_that_is_full_makes_runs_wait(actor, use_runners):
    use_runners(f"{RUNNER}at_once = 1\n")
    for _ in range(3):
        worked(prompts(actor, overlap="allow"))

    queues = rehearse(actor, NOW, end=NOW + 1.5 * HOUR).value.collisions.queues

    assert [(queue.lane, queue.capacity, queue.waiting, queue.longest) for queue in queues] == [
        ("The runner one", 1, 2, timedelta(minutes=10))
    ]


def test_jobs_that_are_not_asked_for_are_not_listed_but_count(actor, use_runners):
    use_runners(f"{RUNNER}per_day = {{ runs = 1 }}\n")
    first = prompts(actor, next_run_at=NOW + 0.5 * HOUR, cron="30 * * * *")
    tagged = prompts(actor, tags=["home"])

    told = rehearse(actor, NOW, end=NOW + 2 * HOUR, query=JobQuery(tag="home")).value

    assert [line.job_id for line in told.lines] == [tagged.public_id]
    assert line_of(tagged, told).count == 0
    assert [line.job_id for line in rehearse(actor, NOW, job=first).value.lines] == [first.public_id]


def test_jobs_of_others_are_not_rehearsed(actor):
    hourly(Actor(UserFactory()))

    assert rehearse(actor, NOW).value.lines == []


CROWDS = {
    "mixed": lambda number: (
        {"cron": f"{number % 60} {number % 24} * * *"} if number % 3 else {"cron": f"{number % 60} * * * *"}
    ),
    "every minute": lambda number: {"cron": "* * * * *"},
    "intervals": lambda number: {
        **{"cron": "", "trigger_type": "interval", "every": timedelta(seconds=60 + number)},
        "anchor_at": NOW + timedelta(seconds=number),
        "last_duration": timedelta(seconds=61),
    },
}


@pytest.mark.verify
@pytest.mark.parametrize("crowd", CROWDS)
def test_a_thousand_jobs_are_rehearsed_within_a_second(actor, crowd):
    for number in range(1000):
        hourly(actor, **CROWDS[crowd](number))

    began = time.process_time()
    told = rehearse(actor, NOW).value
    took = time.process_time() - began

    assert len(told.lines) == 1000
    # Half a second at most on two shared cores.
    assert took < 1.5
