"""Actors, and the jobs and executions that they can see."""

import pytest
from django.contrib.auth.models import Permission

from schedules.models import Event
from schedules.services import Actor
from schedules.services.permissions import record
from tests.factories import ExecutionFactory, JobFactory, staff_with

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


@pytest.mark.parametrize(
    ("permissions", "sees_all", "may_change", "may_delete"),
    [
        ([], False, False, False),
        (["view_job"], True, False, False),
        (["change_job"], True, True, False),
        (["view_job", "delete_job"], True, False, True),
    ],
)
def test_permissions_decide_what_staff_may_do_with_the_jobs_of_others(
    owner, operator, permissions, sees_all, may_change, may_delete
):
    clerk = Actor(staff_with(*permissions), Door.WEB)
    foreign, above, mine = JobFactory(owner=owner), JobFactory(owner=operator), JobFactory(owner=clerk.user)

    assert clerk.sees_all is sees_all
    assert (clerk.may_change(foreign), clerk.may_delete(foreign)) == (may_change, may_delete)
    assert (clerk.may_change(above), clerk.may_delete(above)) == (False, False)
    assert (clerk.may_change(mine), clerk.may_delete(mine)) == (True, True)


def test_permissions_of_somebody_who_is_not_staff_do_not_count(owner, stranger):
    stranger.user_permissions.set(Permission.objects.filter(content_type__app_label="schedules"))

    assert not Actor(stranger, Door.WEB).sees_all
    assert not Actor(stranger, Door.WEB).may_change(JobFactory(owner=owner))
    # Nor do those of staff for their agents.
    assert not Actor(staff_with("change_job"), Door.MCP, "laptop").may_change(JobFactory(owner=owner))


def test_event_records_actor_verb_and_door_without_secrets(agent, now):
    job = JobFactory(owner=agent.user)

    record(agent, "edit", now, job=job, before={"kwargs": {"api_key": "hush"}}, after={"name": "New"})

    event = Event.objects.get()
    assert (event.at, event.owner, event.actor, event.door) == (now, agent.user, "laptop", "mcp")
    assert (event.verb, event.job, event.subject) == ("edit", job, job.name)
    assert (event.before, event.after) == ({"kwargs": {"api_key": "••••••"}}, {"name": "New"})
    assert str(event) == f"laptop edit {job.name}"
