"""The small parts of the pages: what they say, and that they escape."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from django import forms
from django.core.exceptions import ValidationError
from django.template import Context, Template
from django.utils.safestring import mark_safe

from schedules.models import Event, Execution
from schedules.templatetags import charts, cronty, rows
from tests.factories import JobFactory

NOW = datetime(2026, 11, 15, 10, 0, tzinfo=UTC)
EVIL = "<script>\"&'</script>"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "now"),
        (49, "in 49 s"),
        (-59, "59 s ago"),
        (59.6, "in 1 min"),
        (60, "in 1 min"),
        (-89, "1 min ago"),
        (90, "in 2 min"),
        (-7169, "119 min ago"),
        (7170, "in 2 h"),
        (42_960, "in 12 h"),
        (142_620, "in 40 h"),
        (170_999, "in 47 h"),
        (-171_000, "2 d ago"),
        (86_400 * 400, "in 400 d"),
    ],
)
def test_distance_is_said_in_the_nearest_of_one_unit(seconds: float, words: str):
    assert cronty.relative(NOW + timedelta(seconds=seconds), NOW) == words


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (None, "—"),
        (timedelta(0), "0 ms"),
        (timedelta(milliseconds=258), "258 ms"),
        (timedelta(seconds=2.84), "2.8 s"),
        (timedelta(seconds=2), "2 s"),
        (timedelta(seconds=150), "2 min 30 s"),
        (timedelta(hours=1, minutes=5, seconds=3), "1 h 5 min"),
        (timedelta(days=2), "2 d"),
        (-timedelta(seconds=1), "0 ms"),
    ],
)
def test_length_is_said_in_two_units_at_most(span: timedelta | None, words: str):
    assert cronty.duration(span) == words


def test_moment_carries_both_clocks():
    shown = cronty.at(NOW, "Europe/Berlin")

    assert 'datetime="2026-11-15T10:00:00+00:00"' in shown
    assert "Sun 15 Nov 2026 11:00:00 CET · Sun 10:00:00 UTC" in shown


@pytest.mark.parametrize("zone", ["Nowhere/Land", "", EVIL, "../../etc/passwd"])
def test_odd_zone_falls_back_to_utc(zone: str):
    assert "UTC" in cronty.ago(NOW, zone)
    assert "<script" not in cronty.at(NOW, zone)


def test_status_is_an_icon_and_a_word():
    shown = cronty.status("late")

    assert "<svg" in shown
    assert "Late" in shown
    assert "<script>" not in cronty.status(EVIL)


@pytest.mark.parametrize(
    "status", [*Execution.Status.values, "late", "failing", "healthy", "new", "paused", "completed"]
)
def test_every_status_has_a_word(status: str):
    assert cronty.status_word(status) != status


def test_strip_counts_for_those_who_do_not_see_it():
    shown = charts.strip(recent="SSFLC")

    assert 'aria-label="Last 5 runs: 2 succeeded, 1 failed, 1 lost, 1 cancelled"' in shown
    assert shown.count("<path") == 4
    assert "No runs yet" in charts.strip(recent="")
    assert "<script" not in charts.strip(recent="<")


def test_bars_show_every_run():
    runs = [
        Execution(
            status=status, scheduled_for=NOW, started_at=NOW, finished_at=NOW + timedelta(seconds=place)
        )
        for place, status in enumerate(Execution.Status.values)
    ]

    assert charts.bars(runs, "UTC").count("<rect") == len(runs)


def test_row_escapes_everything():
    job = JobFactory.build(
        owner=None,
        pk=1,
        public_id="job_1_1",
        name=EVIL,
        task=EVIL,
        cron=EVIL,
        timezone=EVIL,
        tags=[EVIL],
        made_by=EVIL,
        last_error=EVIL,
        failure_streak=1,
        recent="F",
        last_run_at=NOW,
    )
    job.standing = "failing"
    page = SimpleNamespace(actor=SimpleNamespace(sees_all=False), zone="UTC")

    assert "<script" not in rows.job_row(job, page)


def test_run_row_escapes_everything():
    run = Execution(pk=1, job_name=EVIL, error=EVIL, status="failed", scheduled_for=NOW)

    assert "<script" not in rows.run_row(run, "UTC", show_job=True)


def test_secrets_are_hidden():
    assert "hunter2" not in cronty.pretty({"headers": {"Authorization": "hunter2"}})
    assert cronty.hide_secrets({"password": "hunter2"})[0][1] != "hunter2"


def test_changes_are_listed_with_before_and_after():
    event = Event(
        before={"name": "a", "same": 1}, after={"name": "b", "same": 1, "tags": ["x"], "execution": 7}
    )

    assert cronty.changes(event) == [("name", "a", "b"), ("tags", "—", '["x"]')]


def refuse(text: str) -> None:
    raise ValidationError("Say more.")


class Asked(forms.Form):
    plain = forms.CharField(help_text=EVIL)
    marked = forms.CharField(help_text=mark_safe("<ul><li>Long</li></ul>"), validators=[refuse, refuse])


def test_field_says_its_errors_in_words():
    form = Asked({"marked": "short"})

    assert '<p class="err" id="id_plain_error">This field is required.</p>' in cronty.field(form["plain"])
    assert ">Say more. Say more.</p>" in cronty.field(form["marked"])


def test_hint_is_escaped_unless_it_is_marked_as_safe():
    form = Asked()

    assert "<script" not in cronty.field(form["plain"])
    assert "<ul><li>Long</li></ul>" in cronty.field(form["marked"])


def test_text_in_a_template_is_escaped():
    shown = Template("{% load cronty %}{{ value|pretty }}{{ value|first_line }}").render(
        Context({"value": EVIL})
    )

    assert "<script" not in shown
