"""Limits of agents that are used up: told once, with a button that stops all agents, until a run fits again."""

from datetime import timedelta

import pytest

from schedules import engine
from schedules.engine import alerts
from schedules.engine.progress import update_limit_incident
from schedules.models import Incident, Job, Profile
from tests.engine.conftest import NOW

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
CAP = "The runner notes has used up today's 3 runs."


def skipped(owner, at, cap=CAP):
    update_limit_incident(owner.pk, {"runner": "notes", "cap": cap, "started_at": at, "ended_at": at}, at)


def ran(owner, at, *, ended_at=None):
    update_limit_incident(
        owner.pk, {"runner": "notes", "cap": "", "started_at": at, "ended_at": ended_at or at}, at
    )


def test_owner_is_told_once_while_runs_are_skipped(owner, settings):
    settings.CRONTY_URL = "https://cronty.example"
    Profile.objects.filter(user=owner).update(failure_topic="alarm")
    for hours in range(3):
        skipped(owner, NOW + hours * HOUR)
        engine.send_alerts(NOW + hours * HOUR + alerts.GATHERING)

    notice = Job.objects.notices().get()

    assert CAP in notice.kwargs["message"]
    [button] = notice.kwargs["actions"]
    assert (button["action"], button["label"]) == ("view", "Stop agents")
    assert button["url"].startswith("https://cronty.example/agents/stop/")


def test_only_a_run_that_began_afterwards_ends_it(owner):
    skipped(owner, NOW)
    ran(owner, NOW - HOUR, ended_at=NOW + HOUR)
    assert Incident.objects.get().is_open

    ran(owner, NOW + HOUR)

    assert not Incident.objects.get().is_open
    skipped(owner, NOW + 2 * HOUR)
    assert Incident.objects.count() == 2
