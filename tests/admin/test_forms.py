"""Admin forms: durations, JSON and job fields."""

from datetime import UTC, datetime, timedelta

import pytest
from django import forms
from django.utils import timezone

from schedules.admin.forms import ArgumentsField, DelayField, JobAdminForm, delay_text
from schedules.models import Job
from schedules.services.jobs.validation import EDITABLE
from tests.factories import JobFactory

FILLED_IN = {
    "name": "Backup",
    "task": "tests.ping",
    "args": "[1]",
    "kwargs": "",
    "tags": "home",
    "trigger_type": "cron",
    "cron": "0 9 * * *",
    "timezone": "UTC",
    "attempts": "1",
    "backoff": "10s",
    "timeout": "1m",
    "overlap": "skip",
    "catch_up": "once",
    "pause_after_failures": "10",
}


def filled_in(**fields) -> JobAdminForm:
    return JobAdminForm(FILLED_IN | fields)


# Durations


@pytest.mark.parametrize(
    ("text", "delay"),
    [
        pytest.param("10m", timedelta(minutes=10), id="minutes"),
        pytest.param(" 1H30M ", timedelta(minutes=90), id="mixed"),
        pytest.param("1d2h3m4s", timedelta(days=1, hours=2, minutes=3, seconds=4), id="all units"),
        pytest.param("01:30:00", timedelta(minutes=90), id="Django's way"),
        pytest.param("3 00:00:00", timedelta(days=3), id="Django's days"),
        pytest.param("0", timedelta(0), id="zero"),
        pytest.param(timedelta(seconds=5), timedelta(seconds=5), id="a duration"),
    ],
)
def test_common_duration_formats_are_parsed(text, delay):
    assert DelayField().clean(text) == delay


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("soon", "2h30m", id="word"),
        pytest.param("10m\x00", "English letters", id="NUL"),
        pytest.param("9" * 30, "number of days", id="beyond the longest"),
        pytest.param("9" * 1_000_000, "at most 200 characters", id="megabyte of digits"),
        pytest.param("99999d", "five years", id="too far"),
        pytest.param("", "required", id="nothing"),
    ],
)
def test_invalid_duration_is_refused_with_a_reason(text, words):
    with pytest.raises(forms.ValidationError, match=words):
        DelayField().clean(text)


def test_empty_optional_duration_is_none():
    assert DelayField(required=False).clean("") is None


@pytest.mark.parametrize("text", ["1d2h30m10s", "10m", "1h", "45s", "400d", "00:00:00", "00:00:00.500000"])
def test_duration_is_shown_in_the_format_it_is_parsed_from(text):
    delay = DelayField().clean(text)

    assert delay is not None
    assert delay_text(delay) == text
    assert DelayField().prepare_value(delay) == DelayField().prepare_value(text) == text


# JSON


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("{", "valid JSON", id="truncated"),
        pytest.param("[" * 100_000, "deep", id="deeply nested"),
        pytest.param("[" * 11 + "]" * 11, "deep", id="eleven levels"),
        pytest.param("[" + "9" * 5000 + "]", "number too long", id="5,000 digits"),
        pytest.param("[NaN]", "finite", id="NaN"),
        pytest.param("[1e999]", "finite", id="infinity"),
        pytest.param('["\\u0000"]', "NUL", id="NUL"),
        pytest.param('["\\ud800"]', "surrogate", id="lone surrogate"),
        pytest.param(f'["{"x" * 20_000}"]', "Too large", id="huge"),
    ],
)
def test_json_that_cannot_be_stored_is_refused(text, words):
    with pytest.raises(forms.ValidationError, match=words):
        ArgumentsField().clean(text)


# Jobs


def test_form_has_every_editable_field():
    assert set(JobAdminForm().fields) == {*EDITABLE, "seen_revision", "seen_zone"}


def test_task_choices_leave_out_system_tasks():
    form = JobAdminForm()

    names = [name for name, _ in form.fields["task"].choices]
    assert "tests.ping" in names
    assert "prune_history" not in names


@pytest.mark.django_db
def test_complete_form_is_valid():
    form = filled_in()

    assert form.is_valid(), form.errors
    assert (form.cleaned_data["args"], form.cleaned_data["kwargs"]) == ([1], {})
    assert form.cleaned_data["tags"] == ["home"]


@pytest.mark.django_db
def test_interval_is_valid_without_an_anchor():
    form = filled_in(trigger_type="interval", cron="", every="15m")

    assert form.is_valid(), form.errors


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("fields", "field"),
    [
        pytest.param({"name": ""}, "name", id="no name"),
        pytest.param({"name": "a\u202eb"}, "name", id="bidirectional name"),
        pytest.param({"task": "os.system"}, "task", id="unknown task"),
        pytest.param({"kwargs": '{"colour": 1}'}, "kwargs", id="unknown argument"),
        pytest.param({"kwargs": "[1]"}, "kwargs", id="list for an object"),
        pytest.param({"cron": "61 * * * *"}, "cron", id="bad cron"),
        pytest.param({"timezone": "Mars/Base"}, "timezone", id="unknown zone"),
        pytest.param({"every": "1h"}, "every", id="two triggers"),
        pytest.param({"trigger_type": "interval", "cron": "", "every": "0.5"}, "every", id="half a second"),
        pytest.param({"trigger_type": "once", "cron": ""}, "run_at", id="no moment"),
        pytest.param({"trigger_type": ""}, "trigger_type", id="no type"),
        pytest.param({"attempts": "11"}, "attempts", id="eleven attempts"),
        pytest.param({"timeout": "soon"}, "timeout", id="bad duration"),
        pytest.param({"max_runs": "9" * 40}, "max_runs", id="astronomic runs"),
        pytest.param({"ends_at": "9999-99-99"}, "ends_at", id="no such day"),
    ],
)
def test_error_is_reported_for_its_field(fields, field):
    form = filled_in(**fields)

    assert not form.is_valid()
    assert field in form.errors


@pytest.mark.django_db
def test_form_of_a_job_has_its_revision_and_ignores_lost_microseconds():
    job = JobFactory(
        once=True, revision=7, run_at=datetime(2030, 1, 1, 9, 0, 0, 123456, tzinfo=UTC), timezone="UTC"
    )
    seen = {"seen_revision": 7, "seen_zone": "UTC", "run_at": "2030-01-01 09:00:00"}
    unchanged = JobAdminForm(instance=job).initial | seen
    values = {
        name: JobAdminForm(instance=job)[name].value()
        for name in JobAdminForm().fields
        if unchanged.get(name) is not None
    }

    form = JobAdminForm(values, instance=Job.objects.get())

    assert form["seen_revision"].initial == 7
    assert form.is_valid(), form.errors
    assert form.changed_data == []


@pytest.mark.django_db
@pytest.mark.parametrize("hour", [0, 1], ids=["first", "second"])
def test_unchanged_time_in_the_repeated_hour_is_exactly_the_stored_one(hour):
    stored = datetime(2030, 10, 27, hour, 30, 0, 123456, tzinfo=UTC)
    job = JobFactory(ends_at=stored)

    with timezone.override("Europe/Berlin"):
        # Browsers leave out seconds that are zero.
        form = JobAdminForm(FILLED_IN | {"ends_at": "2030-10-27T02:30"}, instance=job)
        other = JobAdminForm(FILLED_IN | {"ends_at": "2030-10-27T02:31"}, instance=Job.objects.get())

        assert form.is_valid(), form.errors
        assert form.cleaned_data["ends_at"] == stored
        assert "ends_at" not in form.changed_data
        assert "ambiguous" in str(other.errors["ends_at"])
