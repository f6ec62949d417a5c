"""Completions: what is offered for ids, topics, zones and tasks, and to whom."""

import pytest
from mcp import MCPError
from mcp_types import ResourceTemplateReference

from schedules.mcp.auth import local_caller, set_local_caller
from schedules.mcp.resources import completions_of
from schedules.models import Profile
from tests.factories import JobFactory

JOB = ResourceTemplateReference(uri="jobs://{job_id}")


def completed(agent, name: str, text: str, ref=JOB):
    return agent.do(lambda client: client.complete(ref, {"name": name, "value": text})).completion


def test_ids_are_found_by_their_beginning_and_by_the_name_of_the_job(olga, owner, stranger):
    backup, tea = JobFactory(owner=owner, name="Nightly backup"), JobFactory(owner=owner, name="Tea")
    JobFactory(owner=stranger, name="Backup of somebody else")

    assert completed(olga, "job_id", "BACK").values == [backup.public_id]
    assert completed(olga, "job_id", tea.public_id[:9]).values == [tea.public_id]
    assert set(completed(olga, "job_id", "").values) == {backup.public_id, tea.public_id}


def test_topics_are_those_of_the_user_and_of_their_notifications(olga, owner):
    Profile.objects.filter(user=owner).update(topic="my-phone")
    for topic in ("my-tablet", "my-phone", "office"):
        JobFactory(owner=owner, task="notify", kwargs={"message": "Tea", "topic": topic})
    JobFactory(owner=owner, task="webhook", kwargs={"url": "https://example.org"})

    found = completed(olga, "topic", "my", ResourceTemplateReference(uri="schedules://{topic}"))

    assert found.values == ["my-phone", "my-tablet"]


def test_agent_without_the_right_to_read_gets_nothing(olga, owner):
    set_local_caller(local_caller(owner, scopes=("write",)))

    with pytest.raises(MCPError, match="scope read"):
        completed(olga, "job_id", "")


def test_agent_without_notifications_does_not_learn_the_topics(owner):
    Profile.objects.filter(user=owner).update(topic="my-phone")

    assert completions_of(local_caller(owner, families=["prompts"]).actor, "topic", "") == []
