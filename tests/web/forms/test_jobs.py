import pytest

from schedules.models.alert_rules import KINDS
from schedules.web.forms.jobs import JobForm
from tests.factories import JobFactory


def test_empty_policies_keep_their_defaults():
    data = {
        "name": "x",
        "task": "prompt",
        "prompt-prompt": "Hi",
        "when": "phrase",
        "phrase": "@daily",
        "timezone": "UTC",
    }
    form = JobForm(data, zone="UTC")

    assert form.is_valid(), form.errors
    assert not {"attempts", "backoff", "timeout", "overlap"} & form.columns().keys()


def test_tags_are_split_and_deduplicated():
    data = {
        "name": "x",
        "task": "prompt",
        "prompt-prompt": "Hi",
        "when": "phrase",
        "phrase": "@daily",
        "timezone": "UTC",
    }
    form = JobForm(data | {"tags": " home, ,backup,home "}, zone="UTC")

    assert form.is_valid()
    assert form.columns()["tags"] == ["home", "backup"]


COPY = """
[copy]
description = "Copy a folder."
program = "/bin/cp"
arguments = ["--level={level}", "--mode={mode}", "--", "{folder}"]
[copy.parameters]
folder = { description = "What to copy." }
level = { type = "integer", min = 1, max = 9, default = 5 }
mode = { type = "integer", choices = [1, 2], default = 2 }
"""


def test_form_of_a_command_has_a_field_for_each_parameter(use_commands):
    use_commands(COPY)
    data = {"name": "x", "when": "phrase", "phrase": "@daily", "timezone": "UTC"}
    form = JobForm(zone="UTC")
    assert form.fields["copy-folder"].help_text == "What to copy."
    assert form.fields["copy-level"].max_value == 9

    typed = {"task": "copy", "copy-folder": "/srv", "copy-level": "7", "copy-mode": "1"}
    form = JobForm(data | typed, zone="UTC")
    assert form.is_valid(), form.errors
    assert form.columns()["kwargs"] == {"folder": "/srv", "level": 7, "mode": 1}

    form = JobForm(data | typed | {"copy-folder": "", "copy-level": "10"}, zone="UTC")
    assert not form.is_valid()
    assert {"copy-level"} <= set(form.errors)


@pytest.mark.django_db
def test_job_with_long_alert_rules_can_be_edited():
    rules = ", ".join(["channel:phone", *(f"not {kind}" for kind in KINDS), "at night"])
    assert 64 < len(rules) <= 200
    job = JobFactory(alerts=rules)
    form = JobForm(None, zone="UTC", job=job)

    assert form.fields["alerts"].clean(form["alerts"].value()) == rules


@pytest.mark.django_db
def test_later_move_of_jobs_is_offered_only_to_a_job_that_is_one():
    moving = JobFactory(task="move_jobs", kwargs={"jobs": []}, once=True)

    assert "move_jobs" not in dict(JobForm(None, zone="UTC").fields["task"].choices)
    assert "move_jobs" in dict(JobForm(None, zone="UTC", job=moving).fields["task"].choices)
