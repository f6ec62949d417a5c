"""Questions to the person: a zone and a topic that nobody has named, over every transport and in both eras."""

import asyncio

import pytest
from mcp import Client
from mcp.client.stdio import stdio_client
from mcp_types import INTERNAL_ERROR, ElicitResult, ErrorData

from schedules.mcp.auth import local_caller, set_local_caller
from schedules.models import Event, Job, Profile
from schedules.result import Ok
from schedules.services import Actor, issue_token, resume
from tests.factories import JobFactory
from tests.mcp.agents import InMemory, ToolRefusalError, answer_of, mode_of
from tests.mcp.over_http import OverHttp

LOCAL = {"at": "2030-06-03T15:00:00", "prompt": "Check the build"}


class Person:
    """Answers forms with the given values, or declines."""

    def __init__(self, action: str = "accept", **values: str | bool) -> None:
        self.reply = ElicitResult(action=action, content=values if action == "accept" else None)
        self.asked: list[str] = []
        self.fields: set[str] = set()

    async def __call__(self, context, question) -> ElicitResult:
        self.asked.append(question.message)
        self.fields |= set(question.requested_schema["properties"])
        return self.reply


class Unable(Person):
    """Answers every form with an error, like a client that cannot show it."""

    async def __call__(self, context, question) -> ErrorData:
        self.asked.append(question.message)
        return ErrorData(code=INTERNAL_ERROR, message="The window was closed")


@pytest.fixture
def nowhere(owner, settings):
    """Olga, who has set neither a zone nor a topic."""
    settings.CRONTY_TIME_ZONE = "UTC"
    Profile.objects.filter(user=owner).update(timezone="", topic="", failure_topic="")


@pytest.fixture
def beside(caller, era, nowhere):
    """Return Olga's agent, whose client shows questions to a person."""

    def agent_of(person: Person) -> InMemory:
        return InMemory(era, options={"elicitation_callback": person})

    return agent_of


def test_zone_is_asked_for_once_and_kept(beside, owner, cluster):
    person = Person(timezone="Berlin")
    agent = beside(person)

    said = agent.call("schedule", **LOCAL)
    agent.call("schedule", **LOCAL | {"prompt": "Check it again"})

    assert person.asked == [
        "Cronty does not know your time zone. The answer is kept for later; you can change it in the settings."
    ]
    assert {job.timezone for job in Job.objects.all()} == {"Europe/Berlin"}
    assert "15:00" in said
    assert Profile.objects.get(user=owner).timezone == "Europe/Berlin"
    assert Event.objects.get(verb="set preferences").actor == "laptop"


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_person_who_does_not_answer_gets_what_a_client_without_questions_gets(beside, owner, cluster, action):
    silent = Person(action)

    said = beside(silent).call("schedule", **LOCAL)
    with pytest.raises(ToolRefusalError, match="has set no topic"):
        beside(silent).call("send_push_notification", message="Tea")

    assert "UTC" in said
    assert len(silent.asked) == 2
    assert Profile.objects.get(user=owner).timezone == ""


def test_client_that_answers_with_an_error_gets_what_a_client_without_questions_gets(
    caller, nowhere, cluster
):
    unable = Unable()

    said = InMemory("legacy", options={"elicitation_callback": unable}).call("schedule", **LOCAL)

    assert "UTC" in said
    assert len(unable.asked) == 1


def test_wrong_answer_is_refused_by_the_tool_and_not_kept(beside, owner):
    said = beside(Person(timezone="Atlantis")).call("schedule", **LOCAL)

    assert "Atlantis" in said
    assert not Job.objects.exists()
    assert Profile.objects.get(user=owner).timezone == ""


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("schedule", LOCAL | {"timezone": "Asia/Tokyo"}),
        ("schedule", LOCAL | {"at": "2030-06-03T15:00:00+02:00"}),
        (
            "schedule_job",
            {"name": "n", "task": "prune", "trigger_type": "interval", "trigger_config": {"hours": 1}},
        ),
        ("schedule_job", {"trigger_type": 7, "trigger_config": "x"}),
        ("schedule_notification", {"message": "Tea", "notification_topic": "t", "delay": "5m"}),
        ("schedule", LOCAL | {"prompt": 7}),
        ("list_jobs", {}),
    ],
)
def test_nothing_is_asked_without_need(beside, cluster, tool, arguments):
    person = Person(timezone="Berlin", topic="my-phone")

    beside(person).raw(tool, arguments)

    assert person.asked == []


def test_client_is_asked_over_http_in_the_modern_era_only(era, owner, nowhere, cluster):
    person = Person(timezone="Berlin")
    agent = OverHttp(era, issue_token(owner, name="laptop").value.text, {"elicitation_callback": person})

    said = agent.call("schedule", **LOCAL)

    # Over HTTP, a client of the legacy era cannot be reached during a call.
    assert len(person.asked) == (era == "modern")
    assert ("UTC" in said) == (era == "legacy")


def test_client_is_asked_over_stdio(site, era):
    person = Person(timezone="Berlin")

    async def conversation():
        client = Client(stdio_client(site.stdio()), **mode_of(era), elicitation_callback=person)
        async with client:
            await client.call_tool("set_preferences", {"timezone": ""})
            made = await client.call_tool("schedule_job", {**DAILY, "name": era})
            return answer_of(made)

    assert asyncio.run(conversation())["timezone"] == "Europe/Berlin"
    assert len(person.asked) == 1


def test_person_confirms_a_change_to_many_jobs_in_one_call(beside, owner):
    JobFactory.create_batch(2, owner=owner, tags=["home"])
    other = JobFactory(owner=owner)
    person = Person(agree=True)

    done = beside(person).call("bulk_jobs", action="pause", tag="home")

    assert (done["is_done"], done["count"]) == (True, 2)
    assert person.asked[0].startswith("Pause 2 jobs? ")
    assert Job.objects.filter(status="paused").count() == 2
    assert Job.objects.get(pk=other.pk).status == "pending"


@pytest.mark.parametrize("person", [Person("decline"), Person(agree=False)])
def test_person_who_refuses_is_not_to_be_asked_again(beside, owner, person):
    JobFactory(owner=owner, tags=["home"])

    shown = beside(person).call("bulk_jobs", action="pause", tag="home", confirm=None)

    assert (shown["count"], "confirm" in shown) == (1, False)
    assert shown["next_step"] == "The user was asked and did not agree: nothing has been changed."
    assert not Job.objects.filter(status="paused").exists()


DAILY = {
    "task": "webhook",
    "trigger_type": "cron",
    "trigger_config": {"expression": "0 9 * * *"},
    "kwargs": {"url": "https://example.org"},
}


@pytest.mark.parametrize("who", ["olga", "sam", "reader", "forger"])
def test_consent_counts_once_and_for_the_person_who_was_asked(owner, stranger, caller, who):
    """The client brings the answer with its call, so that nobody knows whether a person gave it."""
    JobFactory.create_batch(2, owner=owner, tags=["home"])
    JobFactory(owner=stranger, tags=["home"])
    asked = {"action": "pause", "tag": "home"}
    agent = InMemory("modern", options={"elicitation_callback": Person("cancel")})
    confirm = agent.call("bulk_jobs", **asked)["confirm"]
    key = f"consent:{confirm}" if who != "forger" else "consent:yes"
    if who in ("sam", "reader"):
        set_local_caller(local_caller(stranger) if who == "sam" else local_caller(owner, scopes=("read",)))

    def answer() -> int:
        yes = {key: ElicitResult(action="accept", content={"agree": True})}
        agent.do(lambda client: client.call_tool("bulk_jobs", asked, input_responses=yes))
        paused = list(Job.objects.filter(status="paused"))
        return sum(isinstance(resume(Actor(owner), job.public_id), Ok) for job in paused)

    assert [answer(), answer()] == ([2, 0] if who == "olga" else [0, 0])


def test_agent_that_may_only_read_brings_no_answer_either(owner, caller, nowhere):
    set_local_caller(local_caller(owner, scopes=("read",)))
    agent = InMemory("modern", options={"elicitation_callback": Person("cancel")})
    zone = {"preferences": ElicitResult(action="accept", content={"timezone": "Berlin"})}

    refused = agent.do(lambda client: client.call_tool("schedule", LOCAL, input_responses=zone))

    assert refused.is_error
    assert Profile.objects.get(user=owner).timezone == ""
