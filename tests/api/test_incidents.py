"""Incidents over the API: listed with their alerts, and snoozed."""

import json
from datetime import datetime, timedelta

import pytest

from schedules import clock
from schedules.models import Incident
from tests.api.conftest import Program, program_of
from tests.factories import JobFactory

HOUR = timedelta(hours=1)


@pytest.fixture
def incidents(owner) -> list[Incident]:
    """An open incident between two that are over."""
    now = clock.now()
    ended = {"ended_at": now, "ending": "It works again"}
    return [
        Incident.objects.create(
            owner=owner,
            job=JobFactory(owner=owner, name=name),
            kind="failing",
            subject=name,
            name=name,
            details="Disk full",
            opened_at=now - HOUR,
            told=1,
            told_at=now - HOUR,
            **fields,
        )
        for name, fields in {"Backup": ended, "Sync": {}, "Report": ended}.items()
    ]


def names(page: dict) -> list[str]:
    return [each["name"] for each in page["incidents"]]


def test_open_incidents_are_listed_before_ended_ones_page_by_page(
    incidents, program: Program, strange_program
):
    first = program.ok("GET", "/incidents?limit=2")
    second = program.ok("GET", f"/incidents?limit=2&cursor={first['next_cursor']}")

    assert (names(first), names(second), second["next_cursor"]) == (["Sync", "Report"], ["Backup"], None)
    shown = first["incidents"][0]
    assert (shown["kind"], shown["is_open"], shown["alerts"], shown["details"]) == (
        "failing",
        True,
        1,
        "Disk full",
    )
    assert shown["job_id"] == incidents[1].job.public_id
    assert shown["description"].startswith("Failing since ")
    assert names(program.ok("GET", "/incidents?state=open")) == ["Sync"]
    assert names(program.ok("GET", "/incidents?state=ended")) == ["Report", "Backup"]
    assert names(strange_program.ok("GET", "/incidents")) == []


def test_token_of_some_tasks_lists_the_incidents_of_their_jobs(incidents, program_with):
    assert names(program_with(name="prompts", families=["prompts"]).ok("GET", "/incidents")) == []


def test_incident_is_snoozed_until_a_time_in_words(incidents, program: Program, strange_program):
    path = f"/incidents/{incidents[1].pk}/snooze"
    assert strange_program.call("POST", path).status_code == 404

    shown = program.ok("POST", path, {"until": "in 2 hours"})

    until = datetime.fromisoformat(shown["snoozed_until"])
    assert timedelta(minutes=119) < until - clock.now() <= 2 * HOUR
    assert (shown["snoozed_by"], shown["next_alert_at"]) == ("n8n", shown["snoozed_until"])


@pytest.mark.parametrize(
    ("place", "body", "status", "code"),
    [(1, {"until": "never ever"}, 422, "invalid"), (0, None, 409, "incident_over")],
)
def test_snooze_that_is_not_possible_is_refused(incidents, program: Program, place, body, status, code):
    answer = program.call("POST", f"/incidents/{incidents[place].pk}/snooze", body)

    assert (answer.status_code, json.loads(answer.content)["code"]) == (status, code)


def test_agent_lists_incidents_and_snoozes_none(owner, incidents):
    agent = program_of(owner, name="laptop", kind="conversation")

    assert names(agent.ok("GET", "/incidents?state=open")) == ["Sync"]
    assert agent.call("POST", f"/incidents/{incidents[1].pk}/snooze").status_code == 403
    assert not Incident.objects.filter(snoozed_until__isnull=False).exists()


def test_incidents_cost_no_query_each(owner, incidents, program: Program, django_assert_max_num_queries):
    program.ok("GET", "/incidents")
    with django_assert_max_num_queries(8) as queries:
        program.ok("GET", "/incidents?limit=1")
    with django_assert_max_num_queries(len(queries) + 1):
        program.ok("GET", "/incidents")
