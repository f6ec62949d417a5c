"""The inbox: waiting prompts, and answering, dismissing or releasing them."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client

from schedules import clock, services
from schedules.models import Event, Execution
from schedules.services import Actor
from tests.factories import ExecutionFactory, JobFactory
from tests.web.html import html_of


@pytest.fixture
def waiting(owner: User) -> Execution:
    job = JobFactory(owner=owner, name="Briefing", task="prompt", kwargs={"prompt": "Summarise."})
    return ExecutionFactory(job=job, status="waiting", attempt=1)


def test_prompt_is_shown_until_it_is_answered(web: Client, waiting: Execution):
    assert "Summarise." in web.get("/inbox/").content.decode()

    web.post(f"/inbox/{waiting.pk}/answer/", {"answer": "Done.\r\nAll of it."})

    waiting.refresh_from_db()
    assert (waiting.status, waiting.result) == ("succeeded", "Done.\nAll of it.")
    assert "No prompts waiting" in web.get("/inbox/").content.decode()


def test_answer_that_comes_too_late_is_shown_again(web: Client, waiting: Execution):
    web.post(f"/inbox/{waiting.pk}/answer/", {"answer": "First"})

    page = html_of(web.post(f"/inbox/{waiting.pk}/answer/", {"answer": "Second"}, follow=True))

    waiting.refresh_from_db()
    assert waiting.result == "First"
    assert "This prompt was already answered." in page
    assert "sent: “Second”" in page


def test_claimed_prompt_can_be_released(web: Client, waiting: Execution):
    services.claim_prompts(Actor(waiting.owner, Event.Door.MCP, "laptop"))
    page = html_of(web.get("/inbox/"))
    assert "Claimed by <b>laptop</b>, lease ends " in page
    assert "Claimed by <bdi>laptop</bdi>" in page
    assert "</svg>Waiting" not in page

    web.post(f"/inbox/{waiting.pk}/release/")

    waiting.refresh_from_db()
    assert waiting.lease_until is None


def prompts_of(owner: User, name: str, count: int, **fields: object) -> list[Execution]:
    job = JobFactory(owner=owner, name=name, task="prompt", kwargs={"prompt": f"{name}\nDetails."}, **fields)
    due = clock.now() - timedelta(hours=1)
    return [
        ExecutionFactory(job=job, status="waiting", attempt=1, scheduled_for=due + timedelta(minutes=number))
        for number in range(count)
    ]


def test_chosen_prompt_is_beside_the_list_and_its_actions_lead_to_the_next(web: Client, owner: User):
    first, second, third = prompts_of(owner, "Briefing", 3)

    page = html_of(web.get("/inbox/", {"run": second.pk}))
    last = html_of(web.get("/inbox/", {"run": third.pk}))

    assert f'id="answer-{second.pk}"' in page
    assert f'id="answer-{first.pk}"' not in page
    assert f'name="next" value="/inbox/?run={third.pk}"' in page
    assert f'name="next" value="/inbox/?run={second.pk}"' in last


def test_selected_prompts_are_dismissed_at_once(web: Client, owner: User, stranger: User):
    mine = prompts_of(owner, "Briefing", 3)
    [foreign] = prompts_of(stranger, "Foreign", 1)

    selected = [mine[0].pk, mine[1].pk, foreign.pk, "x"]
    page = html_of(web.post("/inbox/dismiss/", {"run": selected, "next": "/inbox/"}, follow=True))

    assert "2 prompts dismissed." in page
    assert "1 prompt left as before." in page
    assert set(Execution.objects.waiting()) == {mine[2], foreign}


def test_prompt_of_a_paused_job_is_marked_and_can_be_answered(web: Client, actor: Actor, waiting: Execution):
    services.pause(actor, waiting.job.public_id)

    page = html_of(web.get("/inbox/"))
    web.post(f"/inbox/{waiting.pk}/answer/", {"answer": "Done."})

    assert "Job paused" in page
    assert "agents get this prompt after it is resumed" in page
    waiting.refresh_from_db()
    assert waiting.status == "succeeded"


def test_navigation_counts_the_prompts_of_a_person(
    web: Client, owner: User, stranger: User, monkeypatch: pytest.MonkeyPatch
):
    assert badge_of(web) == ""
    prompts_of(owner, "Briefing", 3)
    prompts_of(stranger, "Foreign", 1)
    assert badge_of(web) == "3"

    monkeypatch.setattr("schedules.web.views.page.MAX_WAITING", 2)

    assert badge_of(web) == "2+"


def badge_of(client: Client) -> str:
    [(kept, shown)] = re.findall(
        r' data-waiting="([^"]*)"[^>]*>\s*([^<]*?)\s*</span>', html_of(client.get("/trash/"))
    )
    assert kept == shown
    return str(shown)
