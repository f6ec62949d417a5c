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
    interval_problem,
    no_runs_left,
    type_problems,
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

GOOD = {
    "name": "Backup",
    "args": [1, "two", None],
    "kwargs": {"deep": [[[1.5]]]},
    "run_at": datetime(2026, 2, 4, tzinfo=UTC),
    "every": timedelta(minutes=5),
    "max_runs": 3,
    "ends_at": None,
    "at_most_once": True,
    "fixed_backoff": True,
    "alerts": "ops",
    "tags": [],
}


BAD = {
    "a number for a name": ("name", 7, "text"),
    "a number for a duration": ("every", 300, "duration"),
    "text for a duration": ("timeout", "soon", "duration"),
    "text for a moment": ("run_at", "tomorrow", "zone"),
    "a naive moment": ("ends_at", datetime(2026, 2, 4), "zone"),  # noqa: DTZ001
    "a moment beyond the calendar": (
        "ends_at",
        datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-12))),
        "too far in the future",
    ),
    "a fraction for a count": ("max_runs", 1.5, "whole"),
    "infinity for a count": ("max_runs", math.inf, "whole"),
    "NaN for a count": ("attempts", math.nan, "whole"),
    "truth for a count": ("attempts", True, "whole"),
    "a number for a truth": ("at_most_once", 1, "true or false"),
    "a set for JSON": ("args", {1}, "not a JSON value"),
    "NaN inside JSON": ("kwargs", {"a": math.nan}, "finite"),
}


def test_editable_fields_are_those_shown_to_people():
    shown = {field.name for field in Job._meta.concrete_fields if field.editable} - {"id", "owner"}

    assert set(EDITABLE) == shown


def test_valid_values_have_no_problems():
    assert type_problems(GOOD) == {}


@pytest.mark.parametrize(("field", "value", "words"), BAD.values(), ids=BAD.keys())
def test_value_of_the_wrong_type_is_reported_with_its_field(field, value, words):
    problems = type_problems(GOOD | {field: value})

    assert list(problems) == [field]
    assert words in problems[field][0]


def test_none_becomes_an_empty_string_for_optional_text():
    assert editable_only({"cron": None, "label": None, "run_at": None}) == {
        "cron": "",
        "label": "",
        "run_at": None,
    }


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
    "name of blanks": ({"name": "   "}, "name", "name"),
    "null name": ({"name": None}, "name", "null"),
    "long name": ({"name": "n" * 201}, "name", "200"),
    "NUL in the name": ({"name": "a\x00b"}, "name", "U+0000"),
    "line break in the name": ({"name": "a\nb"}, "name", "U+000A"),
    "line separator in the name": ({"name": "a\u2028b"}, "name", "U+2028"),
    "bidirectional name": ({"name": "txt.\u202eexe"}, "name", "U+202E"),
    "half a character in the name": ({"name": "\ud800"}, "name", "U+D800"),
    "bidirectional label": ({"label": "\u2066"}, "label", "U+2066"),
    "unknown task": ({"task": "os.system"}, "task", "Choose one of"),
    "task of the system": ({"task": "prune_history"}, "task", "Unknown task"),
    "args that are no list": ({"args": {"a": 1}}, "args", "list"),
    "kwargs that are no object": ({"kwargs": [1]}, "kwargs", "object"),
    "unknown argument": ({"kwargs": {"colour": 1}}, "kwargs", "colour"),
    "argument of the wrong type": ({"kwargs": {"fail": "maybe"}}, "kwargs", "fail"),
    "NaN": ({"args": [math.nan]}, "args", "finite"),
    "infinity": ({"kwargs": {"fail": -math.inf}}, "kwargs", "finite"),
    "number of 5,000 digits": ({"args": [10**5000]}, "args", "64 bits"),
    "deep JSON": ({"args": nested(11)}, "args", "deep"),
    "abysmal JSON": ({"args": nested(100_000)}, "args", "deep"),
    "huge JSON": ({"args": ["x" * 20_000]}, "args", "Too large"),
    "NUL in JSON": ({"args": ["\x00"]}, "args", "NUL"),
    "half a character in JSON": ({"args": ["\ud800"]}, "args", "surrogate"),
    "number as a key": ({"kwargs": {1: 1}}, "kwargs", "key"),
    "set in JSON": ({"args": [{1}]}, "args", "set"),
    "tags that are no list": ({"tags": "home"}, "tags", "list"),
    "too many tags": ({"tags": ["t"] * 21}, "tags", "20"),
    "empty tag": ({"tags": [""]}, "tags", "1 to 50"),
    "bidirectional tag": ({"tags": ["\u202e"]}, "tags", "U+202E"),
    "impossible cron": (cron("61 * * * *"), "cron", ""),
    "cron that never fires": (cron("0 0 30 2 *"), "cron", ""),
    "reversed range": (cron("0 17-9 * * *"), "cron", ""),
    "101 characters": (cron("0 9 * * " + ",".join("1" * 47)), "cron", "100"),
    "six fields": (cron("0 0 9 * * *"), "cron", ""),
    "@reboot with a delay": (cron("@reboot", spread=timedelta(minutes=1)), "spread", "no random delay"),
    "@reboot with an end": (
        cron("@reboot", ends_at=NOW + timedelta(days=9)),
        "ends_at",
        "no run before this end",
    ),
    "@reboots": (cron("@reboots"), "cron", "macro is unknown"),
    "question mark": (cron("0 9 ? * *"), "cron", ""),
    "NUL in cron": (cron("0 9 * * \x00"), "cron", ""),
    "no cron": (cron(""), "cron", "Required for jobs"),
    "no cron, as None": (cron(None), "cron", "Required for jobs"),
    "unknown zone": (cron("0 9 * * *", timezone="Mars/Base"), "timezone", "Europe/Berlin"),
    "zone that is a path": (cron("0 9 * * *", timezone="../../etc/passwd"), "timezone", "Unknown"),
    "empty zone": (cron("0 9 * * *", timezone=""), "timezone", ""),
    "unknown trigger type": (cron("0 9 * * *", trigger_type="lunar"), "trigger_type", "lunar"),
    "two triggers": (cron("0 9 * * *", every=timedelta(hours=1)), "every", "Leave this empty"),
    "naive moment": (once(datetime(2026, 3, 1, 9)), "run_at", "zone"),  # noqa: DTZ001
    "past moment": (once(NOW - timedelta(seconds=1)), "run_at", "past"),
    "this very moment": (once(NOW), "run_at", "past"),
    "year 9999": (once(datetime(9999, 12, 31, tzinfo=UTC)), "run_at", "five years"),
    "end of the calendar": (
        once(datetime(9999, 12, 31, 23, 59, tzinfo=timezone(timedelta(hours=-12)))),
        "run_at",
        "too far in the future",
    ),
    "no moment": (once(None), "run_at", "Required for jobs"),
    "interval of nothing": (interval(timedelta(0)), "every", ""),
    "negative interval": (interval(timedelta(seconds=-60)), "every", ""),
    "fractional interval": (interval(timedelta(seconds=1.5)), "every", "whole seconds"),
    "huge interval": (interval(timedelta(days=4000)), "every", "five years"),
    "longest timedelta": (interval(timedelta.max), "every", ""),
    "interval as a number": (interval(300), "every", "duration"),
    "grid in 9999": (
        interval(timedelta(hours=1), anchor_at=datetime(9999, 1, 1, tzinfo=UTC)),
        "anchor_at",
        "five years",
    ),
    "grid of a cron job": (cron("0 9 * * *", anchor_at=NOW), "anchor_at", "interval"),
    "naive end": ({"ends_at": datetime(2027, 1, 1)}, "ends_at", "zone"),  # noqa: DTZ001
    "end before the first run": ({"ends_at": NOW + timedelta(minutes=1)}, "ends_at", "later"),
    "no runs": ({"max_runs": 0}, "max_runs", "1"),
    "negative runs": ({"max_runs": -1}, "max_runs", ""),
    "fraction of a run": ({"max_runs": 1.5}, "max_runs", "whole"),
    "endless runs": ({"max_runs": math.inf}, "max_runs", "whole"),
    "astronomic runs": ({"max_runs": 10**30}, "max_runs", ""),
    "no attempts": ({"attempts": 0}, "attempts", "1"),
    "eleven attempts": ({"attempts": 11}, "attempts", "10"),
    "no time": ({"timeout": timedelta(0)}, "timeout", "one second"),
    "two days' time": ({"timeout": timedelta(days=2)}, "timeout", "one day"),
    "null time": ({"timeout": None}, "timeout", ""),
    "negative backoff": ({"backoff": timedelta(seconds=-1)}, "backoff", "zero"),
    "unknown overlap": ({"overlap": "perhaps"}, "overlap", "perhaps"),
    "unknown catch-up": ({"catch_up": "some"}, "catch_up", "some"),
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


def test_local_time_skipped_by_a_clock_change_runs_when_the_gap_ends(actor, time_machine):
    time_machine.move_to(datetime(2026, 3, 28, 12, tzinfo=UTC), tick=False)

    job = create_job(actor, cron="30 2 * * *", timezone="Europe/Berlin")

    assert job.next_run_at == datetime(2026, 3, 29, 1, tzinfo=UTC)


def test_schedule_without_runs_before_the_end_of_the_calendar_is_refused(actor, time_machine):
    time_machine.move_to(datetime(9999, 12, 31, 23, 59, 30, tzinfo=UTC), tick=False)

    refusal = services.schedule(
        actor, **PLAIN, trigger_type="interval", every=timedelta(hours=1), timezone="UTC"
    )

    assert isinstance(refusal, Err)
    assert refusal.kind == Kind.INVALID


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


def test_minimum_interval_applies_to_agents_only(agent, actor, settings):
    settings.CRONTY_AGENT_MIN_INTERVAL = 30

    assert interval_problem(agent, timedelta(seconds=30)) is None
    assert interval_problem(agent, timedelta(seconds=29)).errors == {
        "every": ["The smallest interval for an agent is 30 seconds."]
    }
    assert interval_problem(actor, timedelta(seconds=1)) is None


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
