"""Actors, and the jobs and executions that they can see."""

import pytest

from schedules.models import Event
from schedules.services import Actor
from schedules.services.actors import not_found, record
from tests.factories import ExecutionFactory, JobFactory

Door = Event.Door


@pytest.mark.parametrize(
    ("who", "door", "name", "sees_all"),
    [
        pytest.param("owner", Door.WEB, "", False, id="person on the pages"),
        pytest.param("owner", Door.ADMIN, "", False, id="person in the admin"),
        pytest.param("operator", Door.WEB, "", True, id="staff on the pages"),
        pytest.param("operator", Door.ADMIN, "", True, id="staff in the admin"),
        pytest.param("operator", Door.COMMAND, "", False, id="staff on the command line"),
        pytest.param("operator", Door.MCP, "laptop", False, id="agent of staff"),
    ],
)
def test_only_staff_on_the_pages_see_all_jobs(request, stranger, who, door, name, sees_all):
    actor = Actor(request.getfixturevalue(who), door, name)
    foreign, mine = JobFactory(owner=stranger), JobFactory(owner=actor.user)
    trashed = JobFactory(owner=stranger, deleted_at=mine.created_at)
    run = ExecutionFactory(job=foreign)

    assert actor.sees_all is sees_all
    assert set(actor.jobs()) == ({foreign, mine} if sees_all else {mine})
    assert set(actor.trash()) == ({trashed} if sees_all else set())
    assert set(actor.executions()) == ({run} if sees_all else set())


def test_label_of_an_agent_is_the_name_of_its_token(actor, agent):
    assert (actor.label, actor.is_agent) == ("olga", False)
    assert (agent.label, agent.is_agent) == ("laptop", True)


def test_event_records_actor_verb_and_door_without_secrets(agent, now):
    job = JobFactory(owner=agent.user)

    record(agent, "edit", now, job=job, before={"kwargs": {"api_key": "hush"}}, after={"name": "New"})

    event = Event.objects.get()
    assert (event.at, event.owner, event.actor, event.door) == (now, agent.user, "laptop", "mcp")
    assert (event.verb, event.job, event.subject) == ("edit", job, job.name)
    assert (event.before, event.after) == ({"kwargs": {"api_key": "••••••"}}, {"name": "New"})
    assert str(event) == f"laptop edit {job.name}"


def test_not_found_error_names_the_requested_id():
    assert not_found("job_1").message == "Job not found: job_1"
