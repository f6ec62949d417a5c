"""The outlook of a period: what runs, why runs are left out, crowded minutes, and what agents will use."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from schedules.models import AgentRun, Event, Execution, Job
from schedules.services import Actor
from schedules.services.job_list import JobQuery
from schedules.services.jobs import outlook as outlook_module
from schedules.services.jobs.outlook import USUAL_PERIOD, notes_on, outlook_in_words, read_outlook
from schedules.services.jobs.proposals import PROPOSED
from schedules.services.runs.agent_stops import stop_agents
from schedules.when.durations import TICK
from schedules.when.unplanned import UNKNOWN_START
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


def ahead(actor, period=USUAL_PERIOD, start=NOW):
    return read_outlook(actor, JobQuery(), NOW, since=start, until=start + period - TICK)


def plan_of(job, outlook):
    return next(plan for plan in outlook.plans if plan.job.pk == job.pk)


def reasons(job, outlook):
    return {each.reason: each.count for each in plan_of(job, outlook).left_out.values()}


def test_nothing_is_written_and_jobs_cost_no_queries_of_their_own(actor, use_runners):
    use_runners(RUNNER)
    worked(prompts(actor))
    with CaptureQueriesContext(
        connection,
    ) as few:
        ahead(actor)
    for number in range(20):
        worked(prompts(actor, name=f"Prompt {number}"))
        hourly(actor)
    before = list(Job.objects.values()), Execution.objects.count()

    with CaptureQueriesContext(connection) as many:
        ahead(actor)

    assert len(many) == len(few)
    assert not [query for query in many if not query["sql"].startswith("SELECT")]
    assert (list(Job.objects.values()), Execution.objects.count()) == before


def test_period_is_a_week_unless_another_is_asked_for(actor):
    job = hourly(actor)

    assert plan_of(job, ahead(actor)).count == 7 * 24 - 1
    later = ahead(actor, DAY, NOW + DAY)
    assert (plan_of(job, later).count, plan_of(job, later).first) == (24, NOW + DAY)


def test_pause_that_ends_is_a_reason(actor):
    job = hourly(actor, status="paused", next_run_at=None, paused_at=NOW, paused_until=NOW + 5.5 * HOUR)

    outlook = ahead(actor, DAY)

    assert reasons(job, outlook) == {"Paused: no reason given": 6}
    assert plan_of(job, outlook).count == 18


def test_pause_without_an_end_and_missing_confirmation_are_reasons(actor):
    paused = hourly(actor, status="paused", next_run_at=None, paused_at=NOW, pause_reason="holidays")
    proposed = {"status": "paused", "next_run_at": None, "paused_at": NOW, "pause_reason": PROPOSED}
    unconfirmed = hourly(actor, proposed_at=NOW, **proposed)

    outlook = ahead(actor, DAY)

    assert reasons(paused, outlook) == {"Paused: holidays": 24}
    assert reasons(unconfirmed, outlook) == {f"Paused: {PROPOSED}": 24}
    assert (outlook.count, outlook.left_out) == (0, 48)


def test_skipped_days_and_limits_of_runs_are_counted(actor):
    skipping = hourly(actor, skips="2026-02-05")
    ending = hourly(actor, max_runs=3, skips="2026-02-04T11:00:00Z")

    outlook = ahead(actor, 2 * DAY)

    assert (plan_of(skipping, outlook).count, sum(reasons(skipping, outlook).values())) == (23, 24)
    assert (plan_of(ending, outlook).count, sum(reasons(ending, outlook).values())) == (3, 1)


def test_job_that_runs_after_another_counts(actor):
    first = hourly(actor, last_duration=0.5 * HOUR)
    follower = JobFactory(
        owner=actor.user, cron=f"@after {first.public_id}", next_run_at=UNKNOWN_START, follows=first
    )

    outlook = ahead(actor, DAY)

    assert (plan_of(follower, outlook).count, plan_of(follower, outlook).first) == (23, NOW + 1.5 * HOUR)


def test_stopped_agents_start_nothing(actor, use_runners):
    use_runners(RUNNER)
    job, inbox = prompts(actor), prompts(actor, kwargs={"prompt": "Look", "runner": "inbox"})
    stop_agents(actor)

    outlook = ahead(actor, DAY)

    assert reasons(job, outlook) == {f"{actor.label} stopped all agents.": 23}
    assert plan_of(inbox, outlook).count == 23


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

    outlook = ahead(actor, NOW.replace(hour=0) + 2 * DAY - NOW)

    assert plan_of(job, outlook).count == starts
    assert reasons(job, outlook) == {words: 15 + 24 - 1 - starts + 1 - 1}


def test_what_was_used_today_counts(actor, use_runners, settings):
    settings.CRONTY_TIME_ZONE = "UTC"
    use_runners(f"{RUNNER}per_day = {{ runs = 4 }}\n")
    job = prompts(actor)
    for minutes in (1, 2, 3):
        worked(job, started_at=NOW - timedelta(minutes=minutes), ended_at=NOW)

    assert plan_of(job, ahead(actor, 10 * HOUR)).count == 1


def test_unknown_runner_is_named(actor, use_runners):
    use_runners(RUNNER)
    job = prompts(actor, kwargs={"prompt": "Look", "runner": "two"})

    assert plan_of(job, ahead(actor)).problem.startswith("Unknown runner: two.")


def test_spend_is_the_median_of_past_runs_and_unknown_without_any(actor, use_runners):
    use_runners(RUNNER)
    job, new = prompts(actor), prompts(actor)
    for cost in ("0.10", "0.20", "9.00"):
        worked(job, cost=Decimal(cost))

    outlook = ahead(actor, 11 * HOUR)

    unknown = {"runs": 10, "tokens": None, "money": None, "minutes": None}
    assert plan_of(job, outlook).use == {"runs": 10, "tokens": 10_000, "money": 2.0, "minutes": 50}
    assert plan_of(new, outlook).use == unknown
    assert outlook_in_words(outlook) == [
        "Agents: 20 runs: 10,000 tokens, $2.00, 50 min, 1 job without past runs unknown."
    ]


def test_minutes_in_which_many_jobs_start_are_listed(actor):
    for number in range(11):
        hourly(
            actor, name=f"Job {number}", cron="30 3 * * *", next_run_at=NOW.replace(hour=3, minute=30) + DAY
        )
    hourly(actor)

    outlook = ahead(actor, 2 * DAY)

    assert [(crowd.at, crowd.starts) for crowd in outlook.crowds] == [
        (NOW.replace(hour=3, minute=30) + DAY, 11),
        (NOW.replace(hour=3, minute=30) + 2 * DAY, 11),
    ]
    assert len(outlook.crowds[0].names) == 5
    assert outlook_in_words(outlook) == ["2 minutes in which 10 or more runs start."]


def test_more_jobs_than_are_read_are_noted(actor, monkeypatch):
    monkeypatch.setattr(outlook_module, "MAX_JOBS", 1)
    hourly(actor)
    assert notes_on(ahead(actor)) == []

    hourly(actor)
    outlook = ahead(actor)

    assert (len(outlook.plans), notes_on(outlook)) == (1, ["Only the next 1 jobs to run are counted."])


def test_jobs_of_others_are_not_rehearsed(actor):
    hourly(Actor(UserFactory()))

    assert ahead(actor).plans == []
