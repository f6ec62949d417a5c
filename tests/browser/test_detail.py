"""User flows on the pages of one job, one run, the form, the calendar and the first reminder."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, Route, expect

from schedules import clock, services
from schedules.models import Execution, Job
from schedules.services import Actor
from tests.browser.conftest import Visitor, full_matrix
from tests.factories import ExecutionFactory

PASSWORD = "correct horse"


@pytest.fixture
def password(owner: User) -> str:
    owner.set_password(PASSWORD)
    owner.save(update_fields=["password"])
    return PASSWORD


def fill_in(page: Page, name: str) -> None:
    page.locator("#id_name").fill(name)
    page.locator("#id_phrase").fill("every day at 17:00")
    page.get_by_label("Message", exact=True).fill("Ready.")
    page.locator("[id='id_notify-topic']").fill("home-4711")


def log_in(page: Page, owner: User) -> None:
    page.locator("[name=username]").fill(owner.username)
    page.locator("[name=password]").fill(PASSWORD)
    page.locator("[name=password]").press("Enter")


def test_run_that_ends_before_the_page_asks_for_the_first_time_is_shown(
    visit: Callable[..., Visitor], jobs: dict[str, Job]
):
    # A slot that passes changes the page too.
    Job.objects.exclude(next_run_at=None).update(next_run_at=clock.now() + timedelta(hours=1))
    visitor = visit()
    run = ExecutionFactory(job=jobs["Stretch"], status="queued", available_at=clock.now())

    def end_after_rendering(route: Route) -> None:
        answer = route.fetch()
        Execution.objects.filter(pk=run.pk).update(status="failed", finished_at=clock.now(), error="boom")
        route.fulfill(response=answer)

    visitor.page.route(f"**/runs/{run.pk}/", end_after_rendering)
    page = visitor.open(f"/runs/{run.pk}/")

    expect(page.locator("#live .st").first).to_have_text("Failed")


@pytest.mark.verify
@pytest.mark.parametrize("is_online", [True, False], ids=["session ended", "offline"])
def test_answer_that_is_being_typed_is_not_refreshed_away(
    visit: Callable[..., Visitor], jobs: dict[str, Job], is_online: bool
):
    run = Execution.objects.get(status="waiting")
    page = visit().open(f"/runs/{run.pk}/")
    page.locator("[name=answer]").fill("Half an answer")
    refreshed: list[str] = []
    page.on("request", lambda request: refreshed.append(request.url) if request.url == page.url else None)

    if is_online:
        page.context.clear_cookies()
    else:
        page.evaluate("document.documentElement.classList.add('offline')")
    # The second time, what follows the first answer has happened.
    for _ in range(2):
        with page.expect_response("**/live/"):
            page.evaluate("dispatchEvent(new Event('online'))")

    assert refreshed == []
    expect(page.locator("[name=answer]")).to_have_value("Half an answer")


@full_matrix
def test_form_says_that_the_session_is_lost_and_is_saved_after_a_log_in_in_another_tab(
    visit: Callable[..., Visitor], jobs: dict[str, Job], owner: User, password: str
):
    page = visit().open("/jobs/new/")
    page.context.clear_cookies()
    fill_in(page, "Tea")
    expect(page.locator("#logged-out")).to_be_visible()

    with page.context.expect_page() as opened:
        page.click("#logged-out a")
    log_in(opened.value, owner)
    expect(opened.value.locator("h1")).to_have_text("Jobs")
    page.click("text=Create job")
    expect(page.locator("#toasts")).to_contain_text("nothing was changed. Try again.")
    expect(page.locator("#id_name")).to_have_value("Tea")
    page.click("text=Create job")

    expect(page.locator("h1")).to_have_text("Tea")


@full_matrix
def test_draft_is_restored_in_the_same_tab_and_can_be_discarded(
    visit: Callable[..., Visitor], jobs: dict[str, Job]
):
    visitor = visit()
    page = visitor.open("/jobs/new/")
    page.locator("input[name=task][value=webhook]").check()
    page.locator("[name='webhook-headers.name']").first.fill("Accept")
    page.locator("#id_name").fill("Half a job")

    page.click("nav >> text=Runs")
    visitor.open("/jobs/new/")
    expect(page.locator("#restored")).to_be_visible()
    expect(page.locator("#id_name")).to_have_value("Half a job")
    expect(page.locator("[name='webhook-headers.name']").first).to_have_value("Accept")
    page.click("text=Discard it")

    expect(page.locator("#id_name")).to_have_value("")
    page.reload()
    expect(page.locator("#restored")).to_be_hidden()
    assert visitor.complaints == []


@full_matrix
def test_problems_are_reached_by_keyboard(visit: Callable[..., Visitor], jobs: dict[str, Job]):
    page = visit().open("/jobs/new/")

    page.locator("#id_name").press("Enter")
    expect(page.locator(".errbox")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(page.locator(".errbox a").nth(1)).to_be_focused()
    page.keyboard.press("Enter")

    expect(page.locator("#id_phrase")).to_be_focused()


@full_matrix
def test_headers_are_typed_in_rows_and_pasted_as_lines(visit: Callable[..., Visitor], jobs: dict[str, Job]):
    visitor = visit()
    page = visitor.open("/jobs/new/")
    page.locator("#id_name").fill("Hook")
    page.locator("#id_phrase").fill("every hour")
    page.locator("input[name=task][value=webhook]").check()
    page.get_by_label("URL", exact=True).fill("https://example.com/")

    page.locator("[name='webhook-headers.name']").first.fill("Accept")
    page.locator("[name='webhook-headers.value']").first.fill("text/plain")
    expect(page.locator("[name='webhook-headers.name']")).to_have_count(2)
    page.locator("[name='webhook-headers.name']").nth(1).evaluate(
        """cell => {
          const data = new DataTransfer();
          data.setData("text", "X-Api-Key: abc\\nAuthorization: Bearer x:y");
          cell.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
        }"""
    )
    page.locator("[id='id_webhook-body']").fill('{"a": 1,}')
    expect(page.get_by_text("Remove the last comma.")).to_be_visible()
    page.click("text=Create job")

    expect(page.locator("h1")).to_have_text("Hook")
    headers = {"Accept": "text/plain", "X-Api-Key": "abc", "Authorization": "Bearer x:y"}
    assert Job.objects.get(name="Hook").kwargs["headers"] == headers
    assert visitor.complaints == []


@full_matrix
def test_draft_of_an_edit_does_not_undo_what_somebody_else_changed(
    visit: Callable[..., Visitor], jobs: dict[str, Job], owner: User
):
    job = next(job for job in jobs.values() if job.status == "pending" and job.cron)
    visitor = visit()
    page = visitor.open(f"/jobs/{job.public_id}/edit/")
    page.locator("#id_name").fill("Mine")
    page.click("nav >> text=Runs")
    services.edit(Actor(owner), job.public_id, label="Theirs")

    visitor.open(f"/jobs/{job.public_id}/edit/")
    expect(page.locator("#id_name")).to_have_value("Mine")
    page.get_by_role("button", name="Save", exact=True).click()

    expect(page.get_by_role("button", name="Keep mine").first).to_be_visible()
    job.refresh_from_db()
    assert (job.label, job.name != "Mine") == ("Theirs", True)
