"""Completions: what is offered for ids, topics, zones and tasks, and to whom."""

import pytest
from django.db import OperationalError, connection
from mcp import MCPError
from mcp_types import PromptReference, ResourceTemplateReference

from schedules.mcp import completions
from schedules.mcp.auth import local_caller, set_local_caller
from schedules.models import Profile
from schedules.services import issue_token
from tests.factories import JobFactory
from tests.mcp.over_http import OverHttp

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


def test_zones_and_tasks_are_completed(olga):
    zone = ResourceTemplateReference(uri="timezones://{+zone}")

    assert completed(olga, "zone", "berlin", zone).values == ["Europe/Berlin"]
    assert "America/New_York" in completed(olga, "zone", "new y", zone).values
    assert completed(olga, "zone", "europe/b", zone).values[0] == "Europe/Belfast"
    assert completed(olga, "task", "web").values == ["webhook"]
    assert completed(olga, "task", "prune").values == []


def test_answer_is_bounded_and_says_that_there_is_more(
    olga, owner, monkeypatch, django_assert_max_num_queries
):
    every = completed(olga, "zone", "")
    assert (len(every.values), every.has_more) == (100, True)
    assert every.total > 400
    monkeypatch.setattr(completions, "SEARCHED_JOBS", 3)
    JobFactory.create_batch(5, owner=owner)

    with django_assert_max_num_queries(3):
        assert len(completed(olga, "job_id", "").values) == 3


def test_unknown_argument_has_no_completions(olga):
    assert completed(olga, "colour", "r", PromptReference(name="daily_briefing")).values == []


def test_agent_without_the_right_to_read_gets_nothing(olga, owner):
    set_local_caller(local_caller(owner, scopes=("write",)))

    with pytest.raises(MCPError, match="scope read"):
        completed(olga, "job_id", "")


def test_completions_are_served_over_http(era, owner):
    job = JobFactory(owner=owner, name="Tea")
    agent = OverHttp(era, issue_token(owner, name="laptop", families=["jobs"]).value.text)

    assert completed(agent, "job_id", "tea").values == [job.public_id]


def test_agent_without_notifications_does_not_learn_the_topics(owner):
    Profile.objects.filter(user=owner).update(topic="my-phone")

    assert completions.complete_topics(local_caller(owner, families=["prompts"]).actor, "") == []


def test_database_that_is_away_is_named(olga):
    def fail(*args):
        raise OperationalError("SELECT secrets FROM /var/lib")

    words = "The database does not answer just now: try again in a moment"
    with connection.execute_wrapper(fail), pytest.raises(MCPError, match=words):
        completed(olga, "job_id", "")
