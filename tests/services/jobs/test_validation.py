"""Validation of jobs: editable columns, types of values, invalid input."""

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest

from schedules import services
from schedules.mcp.answers.refusals import message_of
from schedules.models import Event, Job
from schedules.result import Err, Kind, Ok
from schedules.services import Actor
from schedules.services.jobs.validation import (
    EDITABLE,
    editable_only,
    no_runs_left,
    usable_tasks,
)
from tests.factories import JobFactory
from tests.services.conftest import NOW
from tests.services.made_jobs import (
    CRON,
    INTERVAL,
    PLAIN,
    create_job,
    cron,
    interval,
    once,
    value_of,
)


def test_editable_fields_are_those_shown_to_people():
    shown = {field.name for field in Job._meta.concrete_fields if field.editable} - {"id", "owner"}

    assert set(EDITABLE) == shown


def test_field_that_callers_must_not_set_raises():
    for name in ["owner", "status", "next_run_at", "public_id", "nonsense"]:
        with pytest.raises(TypeError, match=name):
            editable_only({name: 1})


def nested(levels: int) -> list:
    value: list = []
    for _ in range(levels):
        value = [value]
    return value


BAD_INPUT = {
    "no name": ({"name": ""}, "name", "blank"),
    "long name": ({"name": "n" * 201}, "name", "200"),
    "NUL in the name": ({"name": "a\x00b"}, "name", "U+0000"),
    "bidirectional name": ({"name": "txt.\u202eexe"}, "name", "U+202E"),
    "unknown task": ({"task": "os.system"}, "task", "Choose one of"),
    "task of the system": ({"task": "prune_history"}, "task", "Unknown task"),
    "args that are no list": ({"args": {"a": 1}}, "args", "list"),
    "kwargs that are no object": ({"kwargs": [1]}, "kwargs", "object"),
    "unknown argument": ({"kwargs": {"colour": 1}}, "kwargs", "colour"),
    "argument of the wrong type": ({"kwargs": {"fail": "maybe"}}, "kwargs", "fail"),
    "infinity": ({"kwargs": {"fail": -math.inf}}, "kwargs", "finite"),
    "number of 5,000 digits": ({"args": [10**5000]}, "args", "64 bits"),
    "abysmal JSON": ({"args": nested(100_000)}, "args", "deep"),
    "huge JSON": ({"args": ["x" * 20_000]}, "args", "Too large"),
    "NUL in JSON": ({"args": ["\x00"]}, "args", "NUL"),
    "tags that are no list": ({"tags": "home"}, "tags", "list"),
    "too many tags": ({"tags": ["t"] * 21}, "tags", "20"),
    "bidirectional tag": ({"tags": ["\u202e"]}, "tags", "U+202E"),
    "impossible cron": (cron("61 * * * *"), "cron", ""),
    "cron that never fires": (cron("0 0 30 2 *"), "cron", ""),
    "101 characters": (cron("0 9 * * " + ",".join("1" * 47)), "cron", "100"),
    "@reboot with a delay": (cron("@reboot", spread=timedelta(minutes=1)), "spread", "no random delay"),
    "@reboot with an end": (
        cron("@reboot", ends_at=NOW + timedelta(days=9)),
        "ends_at",
        "no run before this end",
    ),
    "no cron": (cron(""), "cron", "Required for jobs"),
    "unknown zone": (cron("0 9 * * *", timezone="Mars/Base"), "timezone", "Europe/Berlin"),
    "zone that is a path": (cron("0 9 * * *", timezone="../../etc/passwd"), "timezone", "Unknown"),
    "unknown trigger type": (cron("0 9 * * *", trigger_type="lunar"), "trigger_type", "lunar"),
    "two triggers": (cron("0 9 * * *", every=timedelta(hours=1)), "every", "Leave this empty"),
    "naive moment": (once(datetime(2026, 3, 1, 9)), "run_at", "zone"),  # noqa: DTZ001
    "past moment": (once(NOW - timedelta(seconds=1)), "run_at", "past"),
    "year 9999": (once(datetime(9999, 12, 31, tzinfo=UTC)), "run_at", "five years"),
    "end of the calendar": (
        once(datetime(9999, 12, 31, 23, 59, tzinfo=timezone(timedelta(hours=-12)))),
        "run_at",
        "too far in the future",
    ),
    "negative interval": (interval(timedelta(seconds=-60)), "every", ""),
    "fractional interval": (interval(timedelta(seconds=1.5)), "every", "whole seconds"),
    "huge interval": (interval(timedelta(days=4000)), "every", "five years"),
    "interval as a number": (interval(300), "every", "duration"),
    "grid in 9999": (
        interval(timedelta(hours=1), anchor_at=datetime(9999, 1, 1, tzinfo=UTC)),
        "anchor_at",
        "five years",
    ),
    "grid of a cron job": (cron("0 9 * * *", anchor_at=NOW), "anchor_at", "interval"),
    "naive end": ({"ends_at": datetime(2027, 1, 1)}, "ends_at", "zone"),  # noqa: DTZ001
    "end before the first run": ({"ends_at": NOW + timedelta(minutes=1)}, "ends_at", "later"),
    "fraction of a run": ({"max_runs": 1.5}, "max_runs", "whole"),
    "eleven attempts": ({"attempts": 11}, "attempts", "10"),
    "no time": ({"timeout": timedelta(0)}, "timeout", "one second"),
    "negative backoff": ({"backoff": timedelta(seconds=-1)}, "backoff", "zero"),
    "unknown overlap": ({"overlap": "perhaps"}, "overlap", "perhaps"),
    "unknown catch-up": ({"catch_up": "some"}, "catch_up", "some"),
    "truth for a count": ({"attempts": True}, "attempts", "whole"),
    "text for a truth": ({"at_most_once": "yes"}, "at_most_once", "true or false"),
    "negative failures": ({"pause_after_failures": -1}, "pause_after_failures", ""),
}


def test_invalid_input_creates_no_job_and_names_the_field(actor):
    for fields, field, words in BAD_INPUT.values():
        refusal = services.schedule(actor, **(PLAIN | CRON | fields))

        assert isinstance(refusal, Err), field
        assert refusal.kind == Kind.INVALID
        assert field in refusal.errors
        assert words in " ".join(refusal.errors[field])
        assert f"{field}: " in message_of(refusal)
        assert not Job.objects.exists()
        assert not Event.objects.exists()


def test_invalid_input_changes_nothing_and_names_the_field(actor):
    job = JobFactory(owner=actor.user, next_run_at=NOW + timedelta(minutes=5))
    before = Job.objects.values().get(pk=job.pk)
    rows = (
        "long name",
        "unknown task",
        "unknown argument",
        "abysmal JSON",
        "impossible cron",
        "two triggers",
    )
    for row in (*rows, "past moment", "huge interval", "end before the first run", "eleven attempts"):
        fields, field, words = BAD_INPUT[row]

        refusal = services.edit(actor, job.public_id, **fields)

        assert isinstance(refusal, Err), row
        assert refusal.kind == Kind.INVALID
        assert words in " ".join(refusal.errors[field])
        assert Job.objects.values().get(pk=job.pk) == before
        assert not Event.objects.exists()


def test_agents_have_their_own_minimum_interval(agent, actor):
    fast = PLAIN | INTERVAL | {"every": timedelta(seconds=9)}

    refusal = services.schedule(agent, **fast)

    assert isinstance(refusal, Err)
    assert "10 seconds" in refusal.errors["every"][0]
    assert isinstance(services.schedule(actor, **fast), Ok)


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        pytest.param(once(NOW), "run_at", "2026-02-04 09:00:00 UTC", id="its time has passed"),
        pytest.param({"max_runs": 3, "slot_count": 3}, "max_runs", "already run 3 times", id="all runs used"),
        pytest.param({"ends_at": NOW}, "ends_at", "no run before this end", id="its end is near"),
        pytest.param({}, "trigger_type", "no more runs", id="any other reason"),
    ],
)
def test_job_without_further_runs_is_refused_with_the_reason(fields, field, words):
    refusal = no_runs_left(Job(**{"timezone": "UTC"} | fields), NOW)

    assert list(refusal.errors) == [field]
    assert words in refusal.errors[field][0]


COMMANDS = """
[everybody]
description = "For everybody."
program = "/bin/true"
allow = ["everyone"]
[agents]
description = "For everybody and their agents."
program = "/bin/true"
arguments = ["--", "{note}"]
allow = ["everyone", "agents"]
parameters.note = { default = "" }
[staff]
description = "For staff."
program = "/bin/true"
[staff_agents]
description = "For staff and their agents."
program = "/bin/true"
allow = ["staff", "agents"]
"""


@pytest.mark.parametrize(
    ("is_staff", "door", "usable"),
    [
        (False, Event.Door.WEB, {"everybody", "agents"}),
        (False, Event.Door.MCP, {"agents"}),
        (True, Event.Door.WEB, {"everybody", "agents", "staff", "staff_agents"}),
        (True, Event.Door.MCP, {"agents", "staff_agents"}),
    ],
)
def test_commands_are_for_those_whom_the_operator_allows(use_commands, owner, is_staff, door, usable):
    use_commands(COMMANDS)
    owner.is_staff = is_staff
    owner.save()
    actor = Actor(owner, door, name="laptop")
    commands = {"everybody", "agents", "staff", "staff_agents"}

    assert {task.name for task in usable_tasks(actor)} & commands == usable
    made = {
        task for task in commands if isinstance(services.schedule(actor, **PLAIN | CRON | {"task": task}), Ok)
    }
    assert made == usable
    started = {
        task
        for task in commands
        if isinstance(services.run_now(actor, JobFactory(owner=owner, task=task).public_id), Ok)
    }
    assert started == usable


def test_agent_cannot_change_a_job_into_a_command_that_is_not_for_agents(use_commands, owner, agent, actor):
    use_commands(COMMANDS)
    job = create_job(actor, task="agents")

    refused = services.edit(agent, job.public_id, task="everybody", kwargs={})

    assert isinstance(refused, Err)
    assert "Agents may not use the command everybody" in message_of(refused)


def test_staff_cannot_give_a_command_to_somebody_who_may_not_use_it(use_commands, operator, owner):
    use_commands(COMMANDS)
    job = JobFactory(owner=owner, task="everybody")

    refused = services.edit(Actor(operator, Event.Door.WEB), job.public_id, task="staff")

    assert isinstance(refused, Err)
    assert "Only staff may use the command staff" in message_of(refused)


@pytest.mark.parametrize(
    ("door", "task", "kwargs", "words"),
    [
        (
            "web",
            "webhook",
            {"url": "https://a.example", "headers": {"authorization": "Bearer ${secret:KEY}"}},
            None,
        ),
        (
            "web",
            "webhook",
            {"url": "https://a.example/${secret:KEY}", "body": {"key": "${secret:KEY}"}},
            None,
        ),
        ("mcp", "webhook", {"url": "https://a.example/${secret:KEY}"}, None),
        (
            "mcp",
            "webhook",
            {"url": "https://a.example", "body": {"key": "${secret:KEY}"}},
            "body: an agent can",
        ),
        ("web", "agents", {"note": "${secret:KEY}"}, None),
        ("web", "agents", {"note": "${secret:}"}, "Write a secret as"),
        ("web", "notify", {"message": "${secret:KEY}", "topic": "t"}, "by webhooks and commands only"),
        ("mcp", "prompt", {"prompt": "${secret:KEY}"}, "by webhooks and commands only"),
    ],
)
def test_secrets_are_used_only_where_they_are_filled_in(use_commands, owner, door, task, kwargs, words):
    use_commands(COMMANDS)

    made = services.schedule(
        Actor(owner, Event.Door(door)), **PLAIN | CRON | {"task": task, "kwargs": kwargs}
    )

    assert isinstance(made, Err) == bool(words), made
    assert not words or words in message_of(made)


@pytest.mark.parametrize("task", ["tests.gone", "tests.aping"])
def test_job_whose_task_no_longer_fits_can_be_renamed_but_not_called_otherwise(actor, task):
    job = create_job(actor)
    Job.objects.filter(pk=job.pk).update(task=task, kwargs={"colour": "red"})

    renamed = value_of(services.edit(actor, job.public_id, name="Renamed"))
    refused = services.edit(actor, job.public_id, kwargs={"colour": "blue"})

    assert (renamed.name, renamed.task, renamed.kwargs) == ("Renamed", task, {"colour": "red"})
    assert isinstance(refused, Err)
