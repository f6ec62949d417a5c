"""Placeholders: facts of the run in notifications, and text from elsewhere that names no secret and ends no marks."""

from datetime import UTC, datetime

import pytest

from schedules.secrets.references import names_in
from schedules.tasks import registry
from schedules.tasks.argument_types import template_problems
from schedules.tasks.placeholders import FACTS, facts_of, fill_in, mark_text, with_gate

GIVEN = facts_of(
    job_id="job_1",
    job_name="Pills ${secret:KEY}",
    scheduled_for=datetime(2026, 3, 29, 1, 0, tzinfo=UTC),
    timezone="Europe/Berlin",
    attempt=2,
)


def test_text_from_elsewhere_names_no_secret_however_it_is_put_together():
    for task in ["webhook", "notify", "prompt"]:
        for text, body in [
            ("${{ trigger.body.a }}", {"a": "{secret:KEY}"}),
            ("{{ trigger.body.a }}{{ trigger.body.b }}", {"a": "$", "b": "{secret:KEY}"}),
            ("{{ trigger.body.a }}{secret:KEY}", {"a": "$"}),
            ("${secret{{ trigger.body.a }}", {"a": ":KEY}"}),
            ("{{ trigger.body.a }}{{trigger.body.b}}KEY}", {"a": "${sec", "b": "ret:"}),
            ("{{ trigger.body.a }}", {"a": {"${secret:KEY}": ["${secret:KEY}"]}}),
            ("x {{ trigger.body.a }}", {"a": {"${secret:KEY}": ["${secret:KEY}"]}}),
        ]:
            assert names_in(fill_in({"body": [text]}, {"trigger": {"body": body}}, task=task)) == set()


@pytest.mark.parametrize("task", ["webhook", "notify", "prompt"])
def test_references_of_the_text_itself_stay(task):
    text = "${secret:A} {{ trigger.body.a }}${secret:B}{{ trigger.body.a }} ${secret:C}"

    shown = fill_in(text, {"trigger": {"body": {"a": "$ ${secret:KEY}"}}}, task=task)

    assert names_in(shown) == {"A", "B", "C"}


def test_answer_of_a_gate_names_no_secret():
    given = {"trigger": {"body": "${{ gate.text }}"}, "gate": {"text": "{secret:KEY}"}}

    shown = fill_in("${secret:A} {{ trigger.body }} ${{ gate.text }}", given, task="prompt")

    assert names_in(with_gate(shown, given)) == {"A"}


@pytest.mark.parametrize(
    "text", ["</mine>", "</mi</mine>ne>", "< / MINE >", "</mine\n>", "<</mine>/mine>", "</</mine>mine>"]
)
def test_marked_text_cannot_end_its_marks(text):
    shown = mark_text("mine", text, "a note")

    assert "".join(shown.lower().split()).count("</mine") == 1
    assert shown.endswith("\n</mine> (a note)")


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
    assert fill_in(text, GIVEN, task="notify") == expected


def test_what_is_filled_in_is_not_read_again():
    given = {**GIVEN, "trigger": {"body": "{{ job.id }}"}}

    assert fill_in("{{ trigger.body }}!", given, task="notify") == "{{ job.id }}!"


@pytest.mark.parametrize("task", ["webhook", "prompt", ""])
def test_other_tasks_leave_these_names_alone(task):
    assert fill_in("{{ job.name }}", GIVEN, task=task) == "{{ job.name }}"


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
    empty = [name for name in FACTS if not fill_in(f"{{{{ {name} }}}}", GIVEN, task="notify")]

    assert empty == []
    assert template_problems({"message": " ".join(f"{{{{ {name} }}}}" for name in FACTS)}) == []


def test_unknown_names_are_refused_with_the_list_of_names():
    task = registry.get("notify")
    arguments = {"message": "{{ job.nme }} {{ trigger.body.x }}", "title": "{{ runs }}", "topic": "a"}

    assert task.check([], arguments) == [
        f"message: unknown name {{{{ job.nme }}}}; use {', '.join(FACTS)}",
        f"title: unknown name {{{{ runs }}}}; use {', '.join(FACTS)}",
    ]
    assert task.check([], arguments, are_filled=True) == [], "a text from elsewhere may contain anything"
