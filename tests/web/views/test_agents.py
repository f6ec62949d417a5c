"""The page of agents: runners, what is left of their limits, and the kill switch, also by the link of an alert."""

import time_machine
from django.test import Client
from django.utils import timezone

from schedules.models import AgentRun, AgentStop, Event
from schedules.tasks.signed_links import stop_button, stop_token
from tests.factories import ExecutionFactory, JobFactory, UserFactory
from tests.web.html import html_of

RUNNER = '[notes]\ndescription = "Reads my notes."\nkind = "claude"\nprogram = "/bin/secret-program"\nallow = ["everyone"]\nper_day = { runs = 3, money = 1.5 }\n'


def add_run(owner, run=None, **values):
    run = run or ExecutionFactory(job__owner=owner, job__task="prompt", attempt=1)
    defaults = {"runner": "notes", "kind": "command", "started_at": timezone.now(), "verdict": "done"}
    return AgentRun.objects.create(
        execution=run, attempt=1, job=run.job, owner=owner, **{**defaults, **values}
    )


def test_page_lists_runners_with_last_runs_and_what_is_left(web, owner, use_runners):
    use_runners(RUNNER)
    run = add_run(owner, cost="0.5", ended_at=timezone.now())
    foreign = add_run(UserFactory(), verdict="failed")

    page = html_of(web.get("/agents/"))

    assert "Reads my notes." in page
    assert "1 of 3 runs" in page
    assert "$1.00 of $1.50" in page
    assert f"/runs/{run.execution_id}/" in page
    assert f"/runs/{foreign.execution_id}/" not in page
    assert "secret-program" not in page


def test_page_tells_what_the_coming_days_will_use(web, owner, use_runners):
    use_runners(f"{RUNNER}default = true\n")
    job = JobFactory(owner=owner, task="prompt", kwargs={"prompt": "Look"}, once=True)
    now = timezone.now()
    add_run(owner, ExecutionFactory(job=job), tokens_in=900, cost="0.5", started_at=now, ended_at=now)

    page = html_of(web.get("/agents/"))

    assert "Agents: 1 run: 900 tokens, $0.50, 0 min." in page


def test_button_stops_and_another_starts_again(web, owner):
    ran = web.post("/agents/switch/")

    assert ran.status_code == 303
    assert AgentStop.objects.get().scope == str(owner.pk)
    page = html_of(web.get("/agents/"))
    assert "olga stopped all agents." in page
    assert "Agents are stopped." in page

    web.post("/agents/switch/", {"then": "start"})

    assert not AgentStop.objects.exists()


def test_others_cannot_stop_everybody(web):
    assert "Only staff can stop" in html_of(web.post("/agents/switch/", {"whose": "everybody"}, follow=True))
    assert not AgentStop.objects.exists()


def test_link_of_an_alert_stops_on_post_only_and_needs_no_login(owner, settings):
    settings.CRONTY_URL = "https://cronty.example"
    [button] = stop_button(owner.pk)
    path = button["url"].removeprefix("https://cronty.example")
    visitor = Client(enforce_csrf_checks=True)

    assert "Stop all my agents" in html_of(visitor.get(path))
    assert not AgentStop.objects.exists()
    assert "Agents are stopped" in html_of(visitor.post(path))

    assert AgentStop.objects.get().by == "Link in an alert"
    assert Event.objects.get(verb="stop agents").door == "link"


def test_changed_link_stops_nothing(owner):
    for change in [lambda text: f"{text}x", lambda text: f"9{text}", lambda text: "x" * 300]:
        answer = Client().post(f"/agents/stop/{change(stop_token(owner.pk))}/")

        assert answer.status_code == 404
        assert not AgentStop.objects.exists()


def test_old_link_stops_nothing(owner):
    with time_machine.travel("2026-11-01", tick=False):
        token = stop_token(owner.pk)

    with time_machine.travel("2026-11-09", tick=False):
        answer = Client().post(f"/agents/stop/{token}/")

    assert answer.status_code == 404
