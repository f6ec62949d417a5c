"""Who is told that an agent proposes a job: its owner, where their alerts go, once, with a link to where it is confirmed."""

from dataclasses import replace
from datetime import timedelta

import pytest

from schedules import clock, engine, services
from schedules.engine import alerts
from schedules.models import Event, Incident, Job, Profile
from schedules.result import Ok
from schedules.services.files.applying import apply_plan
from schedules.services.files.jobs import read_jobs
from schedules.services.files.plans import make_plan
from schedules.services.jobs import moves
from schedules.services.jobs.proposals import confirm
from schedules.services.jobs.undo import latest_events, undo
from schedules.services.permissions import Actor
from tests.factories import JobFactory

PROMPT = {
    **{"name": "Check", "task": "prompt", "kwargs": {"prompt": "Check the build"}},
    **{"trigger_type": "cron", "cron": "0 12 * * *", "timezone": "UTC"},
}
ASKED = "laptop proposes it, and it waits until you confirm it: Every day at 12:00."


@pytest.fixture
def person(owner) -> Actor:
    return Actor(owner, Event.Door.WEB)


@pytest.fixture
def agent(owner) -> Actor:
    return Actor(owner, Event.Door.MCP, name="laptop", confirm="always")


@pytest.fixture
def sent(owner, settings):
    """Give the owner a topic for alerts; return a function that looks, and lists what was sent: title, message and link."""
    settings.CRONTY_URL = "https://cronty.example"
    Profile.objects.filter(user=owner).update(failure_topic="alarm", timezone="UTC")

    def look():
        now = clock.now()
        engine.watch_incidents(now)
        engine.send_alerts(now + alerts.GATHERING)
        return [
            (job.kwargs["title"], job.kwargs["message"], job.kwargs.get("click"))
            for job in Job.objects.notices().order_by("pk")
        ]

    return look


def propose(agent: Actor, **fields: object) -> Job:
    made = services.schedule(agent, **(PROMPT | fields))
    assert isinstance(made, Ok), made
    return made.value.job


def test_owner_is_told_once_with_a_link_to_the_job(agent, sent):
    job = propose(agent)

    assert sent() == [("You are needed", f"Check: {ASKED}", f"https://cronty.example/jobs/{job.public_id}/")]
    assert isinstance(services.edit(agent, job.public_id, cron="0 13 * * *"), Ok)
    assert len(sent()) == 1
    assert "actions" not in Job.objects.notices().get().kwargs


def test_several_are_told_together_with_a_link_to_the_plan(agent, sent):
    propose(agent)
    propose(agent, name="Second")

    [(title, message, link)] = sent()

    assert (title, link) == ("You are needed 2 times", "https://cronty.example/")
    assert message == f"Check: {ASKED}\nSecond: {ASKED}"


def test_confirmation_is_told_after_the_proposal_was(agent, person, sent):
    job = propose(agent)
    assert len(sent()) == 1

    assert isinstance(confirm(person, job.public_id), Ok)

    [_, (title, message, _)] = sent()
    assert (title, message.startswith("Check: Confirmed")) == ("Answered", True)


@pytest.mark.parametrize("answer", [confirm, services.cancel, services.delete])
def test_nothing_is_told_of_what_was_answered_before(agent, person, sent, answer):
    job = propose(agent)
    assert isinstance(answer(person, job.public_id), Ok)

    assert sent() == []
    assert not Incident.objects.filter(ended_at=None).exists()


def test_change_by_the_agent_is_told_and_one_by_the_owner_is_not(agent, person, owner, sent):
    job = JobFactory(owner=owner, name="Backup", cron="0 3 * * *")
    assert isinstance(services.edit(person, job.public_id, cron="0 4 * * *"), Ok)
    assert isinstance(services.edit(agent, job.public_id, name="Copies"), Ok)
    assert sent() == []

    assert isinstance(services.edit(agent, job.public_id, cron="0 5 * * *"), Ok)

    [(_, message, _)] = sent()
    assert message.startswith("Copies: laptop proposes it")


def test_owner_who_makes_a_job_wait_again_is_not_told(agent, person, sent):
    job = propose(agent)
    assert isinstance(confirm(person, job.public_id), Ok)
    assert sent() == []

    assert isinstance(undo(person, latest_events(person, "confirm", [job.public_id])), Ok)
    assert isinstance(services.delete(person, job.public_id), Ok)
    assert isinstance(services.restore(person, job.public_id), Ok)

    assert Job.objects.proposed().get() == job
    assert sent() == []


def test_agent_that_restores_its_proposal_asks_again(agent, sent):
    job = propose(agent)
    assert isinstance(services.delete(agent, job.public_id), Ok)
    assert sent() == []
    assert isinstance(services.restore(agent, job.public_id), Ok)

    assert len(sent()) == 1


def test_agent_cannot_choose_where_its_proposal_is_told(agent, sent):
    propose(agent, alerts="never")

    sent()

    assert Job.objects.notices().get().kwargs["topic"] == "alarm"


def test_agent_whose_jobs_need_no_confirmation_tells_nobody(agent, sent):
    propose(replace(agent, confirm="never"))

    assert sent() == []


def test_jobs_of_a_file_and_moved_jobs_are_told(agent, owner, sent):
    moved = JobFactory(owner=owner, name="Backup", cron="0 3 * * *")
    shift = moves.Move(shift=timedelta(hours=1))
    done = moves.move_jobs(agent, [moved.pk], {moved.pk: moved.revision}, shift)
    assert isinstance(done, Ok)
    text = "jobs:\n  One: {schedule: every day at 8:00, task: tests.ping}\n"
    jobs, problems = read_jobs([("jobs.yaml", text)], "UTC", clock.now())
    assert problems == []
    assert isinstance(apply_plan(agent, make_plan(agent, "jobs.yaml", jobs, clock.now())), Ok)

    [(_, message, _)] = sent()

    assert [line.partition(":")[0] for line in message.splitlines()] == ["Backup", "One"]
