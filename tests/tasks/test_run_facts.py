"""Facts of a run in the texts of a notification."""

from datetime import UTC, datetime

import pytest

from schedules.channels.notify import notify
from schedules.tasks import registry
from schedules.tasks.argument_types import template_problems
from schedules.tasks.placeholders import fill_in
from schedules.tasks.run_facts import NAMES, facts_of

FACTS = facts_of(
    job_id="job_1",
    job_name="Pills ${secret:KEY}",
    scheduled_for=datetime(2026, 3, 29, 1, 0, tzinfo=UTC),
    timezone="Europe/Berlin",
    attempt=2,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ job.id }}", "job_1"),
        ("{{run.scheduled_for}}", "Sun 29 Mar 2026 03:00"),
        ("{{ run.weekday }} {{ run.date }} at {{ run.time }}", "Sunday 2026-03-29 at 03:00"),
        ("try {{ run.attempt }}", "try 2"),
        ("{{ job.name }}", "Pills $ {secret:KEY}"),
        ("{{ run.nothing }}|{{ job.name.more }}|{{ trigger.body }}", "||"),
        ("{{ other.name }} {{ x | y }} {% if %}", "{{ other.name }} {{ x | y }} {% if %}"),
    ],
)
def test_names_are_filled_in_on_the_clock_of_the_job(text, expected):
    assert fill_in(text, FACTS, task="notify") == expected


def test_what_is_filled_in_is_not_read_again():
    given = {**FACTS, "trigger": {"body": "{{ job.id }}"}}

    assert fill_in("{{ trigger.body }}!", given, task="notify") == "{{ job.id }}!"


@pytest.mark.parametrize("task", ["webhook", "prompt", ""])
def test_other_tasks_leave_these_names_alone(task):
    assert fill_in("{{ job.name }}", FACTS, task=task) == "{{ job.name }}"


def test_unknown_zone_is_shown_in_utc():
    facts = facts_of(
        job_id="",
        job_name="",
        scheduled_for=datetime(2026, 3, 29, 1, 0, tzinfo=UTC),
        timezone="Moon/Sea",
        attempt=1,
    )

    assert (facts["run"]["time"], facts["run"]["scheduled_for"]) == ("01:00", "Sun 29 Mar 2026 01:00")


def test_every_name_of_the_list_stands_for_something():
    empty = [name for name in NAMES if not fill_in(f"{{{{ {name} }}}}", FACTS, task="notify")]

    assert empty == []
    assert template_problems({"message": " ".join(f"{{{{ {name} }}}}" for name in NAMES)}) == []


def test_unknown_names_are_refused_with_the_list_of_names():
    task = registry.get("notify")
    assert task is not None
    assert task.function is notify
    arguments = {"message": "{{ job.nme }} {{ trigger.body.x }}", "title": "{{ runs }}", "topic": "a"}

    assert task.check([], arguments) == [
        f"message: unknown name {{{{ job.nme }}}}; use {', '.join(NAMES)}",
        f"title: unknown name {{{{ runs }}}}; use {', '.join(NAMES)}",
    ]
    assert task.check([], arguments, are_filled=True) == [], "a text from elsewhere may contain anything"
