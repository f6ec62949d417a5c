"""Templates: their formatting, and escaping of text that people wrote."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

from django.template.loader import render_to_string

from schedules.models import Execution
from tests.factories import JobFactory

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = sorted([*ROOT.glob("templates/**/*.html"), *ROOT.glob("schedules/templates/**/*.html")])
NOW = datetime(2026, 11, 15, 10, 0, tzinfo=UTC)
EVIL = "<script>\"&'</script>"


def test_no_template_turns_escaping_off():
    for path in TEMPLATES:
        text = path.read_text(encoding="utf-8")
        assert "|safe" not in text
        assert "autoescape off" not in text


def test_job_row_escapes_everything():
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
    job.standing, job.can_change = "failing", True
    page = SimpleNamespace(actor=SimpleNamespace(sees_all=False), zone="UTC")

    shown = render_to_string("schedules/parts/job_row.html", {"job": job, "page": page})

    assert shown.count("&lt;script&gt;") >= 8
    assert "<script" not in shown


def test_run_row_escapes_everything():
    run = Execution(pk=1, job_name=EVIL, error=EVIL, status="failed", scheduled_for=NOW)

    shown = render_to_string("schedules/parts/run_row.html", {"run": run, "zone": "UTC", "show_job": True})

    assert shown.count("&lt;script&gt;") == 2
    assert "<script" not in shown
