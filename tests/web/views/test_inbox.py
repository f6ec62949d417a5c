"""The inbox: waiting prompts, and answering, dismissing or releasing them."""

import re
from datetime import UTC, datetime, timedelta

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


def test_prompt_passed_by_position_is_shown(web: Client, owner: User):
    job = JobFactory(owner=owner, task="prompt", args=["Water the plants."])
    ExecutionFactory(job=job, status="waiting", attempt=1)

    assert "Water the plants." in web.get("/inbox/").content.decode()


def test_shortened_prompt_leads_to_the_whole_one(web: Client, owner: User):
    job = JobFactory(owner=owner, task="prompt", kwargs={"prompt": f"{'x' * 4000}The end"})
    run = ExecutionFactory(job=job, task="prompt", status="waiting", attempt=1)

    page = html_of(web.get("/inbox/"))

    assert "The end" not in page
    assert f'Shortened. <a href="/runs/{run.pk}/">View the whole prompt</a>' in page
    assert "The end" in html_of(web.get(f"/runs/{run.pk}/"))


def test_action_on_a_later_page_leads_back_to_it(web: Client, owner: User):
    job = JobFactory(owner=owner, task="prompt", kwargs={"prompt": "Summarise."})
    due = clock.now() - timedelta(hours=1)
    runs = [
        ExecutionFactory(job=job, status="waiting", attempt=1, scheduled_for=due + timedelta(minutes=number))
        for number in range(21)
    ]
    later = f"/inbox/?after={web.get('/inbox/').context['listed'].after}"

    page = html_of(web.get(later))
    answer = web.post(f"/inbox/{runs[-1].pk}/dismiss/", {"next": later}, follow=True)

    forms = re.findall(r'action="/inbox/\d+/(\w+)/">.*?name="next" value="([^"]+)"', page)
    assert forms == [("answer", later), ("dismiss", later)]
    assert answer.redirect_chain == [(later, 303)]
    assert "No prompts waiting" not in answer.content.decode()


def test_empty_answer_is_refused(web: Client, waiting: Execution):
    page = web.post(f"/inbox/{waiting.pk}/answer/", {"answer": " "}, follow=True).content.decode()

    assert "Write an answer first" in page


def test_answer_that_comes_too_late_is_shown_again(web: Client, waiting: Execution):
    web.post(f"/inbox/{waiting.pk}/answer/", {"answer": "First"})

    page = html_of(web.post(f"/inbox/{waiting.pk}/answer/", {"answer": "Second"}, follow=True))

    waiting.refresh_from_db()
    assert waiting.result == "First"
    assert "This prompt was already answered." in page
    assert "Your answer wasn’t sent" in page
    assert '<pre dir="auto">Second</pre>' in page
    assert "Second" not in html_of(web.get("/inbox/"))


def test_refused_answer_is_filled_in_again_on_the_page_that_sent_it(web: Client, waiting: Execution):
    page, answer = f"/runs/{waiting.pk}/", "x" * 20_000

    refused = web.post(f"/inbox/{waiting.pk}/answer/", {"answer": answer, "next": page}, follow=True)

    assert refused.redirect_chain == [(page, 303)]
    assert "Too large: 20,002 bytes" in html_of(refused)
    assert f"{answer}</textarea>" in html_of(refused)


def test_answer_to_a_prompt_of_a_deleted_job_is_shown_again(web: Client, waiting: Execution, actor: Actor):
    services.delete(actor, waiting.job.public_id)

    page = html_of(web.post(f"/inbox/{waiting.pk}/answer/", {"answer": "Done."}, follow=True))

    assert "This prompt is no longer in the inbox." in page
    assert '<pre dir="auto">Done.</pre>' in page


def test_answer_that_is_too_long_is_filled_in_again(web: Client, waiting: Execution):
    answer = "x" * 20_000

    page = html_of(web.post(f"/inbox/{waiting.pk}/answer/", {"answer": answer}, follow=True))

    assert "Too large: 20,002 bytes of JSON; at most 16,384 are kept." in page
    assert f"{answer}</textarea>" in page
    assert 'maxlength="16384"' in page
    assert "Your answer wasn’t sent" not in page
    assert "Not saved yet" not in page


def test_answer_that_is_too_long_to_be_kept_is_not_lost_silently(web: Client, waiting: Execution):
    page = html_of(web.post(f"/inbox/{waiting.pk}/answer/", {"answer": "x" * 70_000}, follow=True))

    assert "go back and copy it" in page


def test_prompt_can_be_dismissed_once(web: Client, waiting: Execution):
    web.post(f"/inbox/{waiting.pk}/dismiss/")

    page = web.post(f"/inbox/{waiting.pk}/dismiss/", follow=True).content.decode()

    assert "This prompt was already dismissed." in page
    assert "Recently completed" in page


def test_claimed_prompt_can_be_released(web: Client, waiting: Execution):
    services.claim_prompts(Actor(waiting.owner, Event.Door.MCP, "laptop"))
    assert "Claimed by <b>laptop</b>, lease ends " in web.get("/inbox/").content.decode()

    web.post(f"/inbox/{waiting.pk}/release/")

    waiting.refresh_from_db()
    assert waiting.lease_until is None


def test_expired_lease_is_not_shown_as_released(web: Client, waiting: Execution):
    expired = clock.now() - timedelta(minutes=3)
    Execution.objects.filter(pk=waiting.pk).update(leased_to="laptop", lease_until=expired)

    page = html_of(web.get("/inbox/"))

    assert "Claimed by <b>laptop</b>, lease expired <time" in page
    assert "Released" not in page


def test_number_of_claims_of_a_prompt_is_shown(web: Client, waiting: Execution):
    agent = Actor(waiting.owner, Event.Door.MCP, "laptop")

    def shown_claims() -> str:
        page = html_of(web.get("/inbox/"))
        return page[page.index("Due ") : page.index("Answer it yourself")]

    assert "Not claimed yet" in shown_claims()
    assert "attempt" not in shown_claims().partition("Not claimed yet")[2].partition("</p>")[0]

    services.claim_prompts(agent)
    assert "1 attempt<" in shown_claims()

    web.post(f"/inbox/{waiting.pk}/release/")
    assert "Released · 1 attempt<" in shown_claims()

    services.claim_prompts(agent)
    assert "2 attempts<" in shown_claims()


def prompts_of(owner: User, name: str, count: int, **fields: object) -> list[Execution]:
    job = JobFactory(owner=owner, name=name, task="prompt", kwargs={"prompt": f"{name}\nDetails."}, **fields)
    due = clock.now() - timedelta(hours=1)
    return [
        ExecutionFactory(job=job, status="waiting", attempt=1, scheduled_for=due + timedelta(minutes=number))
        for number in range(count)
    ]


def test_prompts_are_grouped_by_their_jobs(web: Client, owner: User):
    first, last = prompts_of(owner, "Briefing", 2)
    Execution.objects.filter(pk=first.pk).update(scheduled_for=clock.now() - timedelta(hours=3))
    [between] = prompts_of(owner, "Mail", 1)
    Execution.objects.filter(pk=between.pk).update(scheduled_for=clock.now() - timedelta(hours=2))

    assert web.get("/inbox/").context["groups"] == [[first, last], [between]]


def test_row_says_when_its_prompt_was_due_and_the_job_its_text_once(web: Client, owner: User):
    job = JobFactory(owner=owner, name="Brief", task="prompt", kwargs={"prompt": "Summarise."})
    for hour in (7, 8):
        ExecutionFactory(
            job=job, status="waiting", scheduled_for=datetime(2026, 11, 18, hour, 15, tzinfo=UTC)
        )

    listed = html_of(web.get("/inbox/")).partition('aria-label="Prompts"')[2].partition("</section>")[0]

    assert listed.count("Summarise.") == 1
    assert "Wed 18 Nov 08:15" in listed
    assert 'aria-label="Select Brief, due Wed 18 Nov 09:15"' in listed


def test_chosen_prompt_is_beside_the_list_and_its_actions_lead_to_the_next(web: Client, owner: User):
    first, second, third = prompts_of(owner, "Briefing", 3)

    page = html_of(web.get("/inbox/", {"run": second.pk}))
    last = html_of(web.get("/inbox/", {"run": third.pk}))

    assert f'id="answer-{second.pk}"' in page
    assert f'id="answer-{first.pk}"' not in page
    assert f'name="next" value="/inbox/?run={third.pk}"' in page
    assert f'name="next" value="/inbox/?run={second.pk}"' in last


@pytest.mark.parametrize("asked", ["0", "x", "9" * 40])
def test_prompt_that_is_not_listed_shows_the_first(web: Client, owner: User, asked: str):
    [first] = prompts_of(owner, "Briefing", 1)

    assert web.get("/inbox/", {"run": asked}).context["chosen"] == first


def test_selected_prompts_are_dismissed_at_once(web: Client, owner: User, stranger: User):
    mine = prompts_of(owner, "Briefing", 3)
    [foreign] = prompts_of(stranger, "Foreign", 1)

    selected = [mine[0].pk, mine[1].pk, foreign.pk, "x"]
    page = html_of(web.post("/inbox/dismiss/", {"run": selected, "next": "/inbox/"}, follow=True))

    assert "2 prompts dismissed." in page
    assert "1 prompt left as before." in page
    assert set(Execution.objects.waiting()) == {mine[2], foreign}


def test_dismissing_without_a_selection_says_so(web: Client, owner: User):
    assert "Select at least one prompt first." in html_of(web.post("/inbox/dismiss/", follow=True))


def test_claimed_prompt_names_its_agent_and_not_that_it_waits(web: Client, waiting: Execution):
    lease = clock.now() + timedelta(minutes=5)
    Execution.objects.filter(pk=waiting.pk).update(leased_to="laptop", lease_until=lease)

    page = html_of(web.get("/inbox/"))

    assert "Claimed by <bdi>laptop</bdi>" in page
    assert "</svg>Waiting" not in page


def test_prompt_of_a_paused_job_is_marked_and_can_be_answered(web: Client, actor: Actor, waiting: Execution):
    services.pause(actor, waiting.job.public_id)

    page = html_of(web.get("/inbox/"))
    web.post(f"/inbox/{waiting.pk}/answer/", {"answer": "Done."})

    assert "Job paused" in page
    assert "agents get this prompt after it is resumed" in page
    waiting.refresh_from_db()
    assert waiting.status == "succeeded"


def test_owner_is_shown_to_staff_only(web: Client, staff: Client, waiting: Execution):
    assert "Owner <b>olga</b>" in html_of(staff.get("/inbox/"))
    assert "Owner <b>" not in html_of(web.get("/inbox/"))


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
