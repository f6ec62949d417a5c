"""User flows on the pages, step by step."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, Route, expect

from schedules import clock
from schedules.models import Job, Token
from schedules.templatetags.cronty_times import relative
from tests.browser.conftest import Visitor, full_matrix

BACKGROUNDS = {"light": "rgb(247, 248, 250)", "dark": "rgb(15, 21, 27)"}


def toast(page: Page) -> Any:
    return page.locator("#toasts")


@full_matrix
def test_enter_key_creates_the_job_and_saves_an_edit(visit: Callable[..., Visitor], jobs: dict[str, Job]):
    page = visit().open("/jobs/new/")
    page.locator("#id_name").fill("Tea")
    page.get_by_label("Message", exact=True).fill("Ready.")
    page.get_by_label("Topic", exact=True).fill("home-4711")
    page.locator("#id_phrase").fill("every day at 17:00")

    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Tea")
    page.click("text=Edit")
    page.locator("#id_name").fill("Coffee")
    page.keyboard.press("Enter")

    expect(page.locator("h1")).to_have_text("Coffee")


def test_preview_shows_the_latest_input_without_console_errors(
    visit: Callable[..., Visitor], jobs: dict[str, Job]
):
    visitor = visit()
    visitor.page.clock.install()
    page = visitor.open("/jobs/new/")
    held: list[Route] = []
    page.route("**/jobs/preview/**", lambda route: route.continue_() if held else held.append(route))

    with page.expect_request("**/jobs/preview/**"):
        page.locator("#id_phrase").fill("every day at 8:00")
    # Longer than the pause after which the page asks for a preview.
    for phrase in ("every day at 9:00", "every day at 10:00"):
        page.locator("#id_phrase").fill(phrase)
        page.clock.run_for(1000)
    held[0].continue_()

    expect(page.locator("#preview")).to_contain_text("Every day at 10:00")
    assert visitor.complaints == []


@full_matrix
def test_switch_pauses_the_job_and_keeps_the_focus(visit: Callable[..., Visitor], jobs: dict[str, Job]):
    visitor = visit()
    page = visitor.open("/")
    switch = page.locator(f"#switch-{jobs['Water the plants'].pk}")

    switch.focus()
    page.keyboard.press("Space")

    expect(switch).to_have_attribute("aria-checked", "false")
    expect(switch).to_be_focused()
    expect(toast(page)).to_contain_text("Water the plants paused")
    page.evaluate("document.body.dispatchEvent(new CustomEvent('refresh'))")
    page.wait_for_load_state("networkidle")
    expect(switch).to_be_focused()
    assert visitor.complaints == []


@full_matrix
def test_script_formats_relative_times_like_the_server(visit: Callable[..., Visitor], jobs: dict[str, Job]):
    page = visit().open("/")
    distances = [20.5, 100, -5000, 10_000, 42_960, -142_620, 400_000]
    now = clock.now()
    moments = [now + timedelta(seconds=each) for each in distances]

    page.evaluate(
        """moments => moments.forEach(moment => {
          const time = Object.assign(document.createElement("time"), { dateTime: moment, className: "probe" });
          time.dataset.rel = "";
          document.body.append(time);
        })""",
        [moment.isoformat() for moment in moments],
    )
    expect(page.locator("time.probe").first).to_have_text(re.compile("in [12][0-9] s"))

    shown = page.locator("time.probe").all_inner_texts()
    assert shown[1:] == [relative(moment, now) for moment in moments][1:]


@full_matrix
def test_agent_is_connected(visit: Callable[..., Visitor], jobs: dict[str, Job]):
    page = visit().open("/connect/")

    page.locator("#id_name").fill("desk")
    page.click("text=Create token")
    text = page.locator("#token").inner_text()
    assert text in page.locator("#s-code").inner_text()
    expect(page.locator("#first-call")).to_contain_text("to connect")
    Token.objects.filter(name="desk").update(last_used_at=clock.now())

    expect(page.locator("#first-call")).to_contain_text("is connected")
    page.reload()
    assert text not in page.content()


@full_matrix
@pytest.mark.parametrize(("mode", "chosen"), [("light", ["dark", "light"]), ("dark", ["light", "dark"])])
def test_first_click_switches_the_theme_without_javascript(
    visit: Callable[..., Visitor], jobs: dict[str, Job], mode: str, chosen: list[str]
):
    page = visit(mode, java_script_enabled=False).open("/settings/")

    for theme in chosen:
        page.get_by_label("Theme").click()
        page.locator(f"button[name=theme][value={theme}]").click()

        expect(page.locator("html")).to_have_attribute("data-theme", theme)
        expect(page.locator("body")).to_have_css("background-color", BACKGROUNDS[theme])


def test_job_is_added_changed_and_deleted_in_the_admin(
    visit: Callable[..., Visitor], operator: User, jobs: dict[str, Job]
):
    visitor = visit(user=operator)
    page = visitor.open("/admin/schedules/job/add/")
    page.get_by_label("Name:", exact=True).fill("Tea")
    page.select_option("#id_task", "notify")
    page.get_by_label("Schedule:", exact=True).fill("every weekday at 17:00")
    page.locator("#id_kwargs").fill('{"message": "Ready.", "topic": "home-4711"}')
    page.get_by_role("button", name="Save and continue editing").click()
    expect(page.locator(".messagelist")).to_contain_text("was added successfully")
    page.locator("#id_timeout").fill("2 minutes")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".messagelist")).to_contain_text("was changed successfully")

    job = Job.objects.get(name="Tea")
    assert (job.owner, job.timeout, job.cron) == (operator, timedelta(minutes=2), "0 17 * * 1-5")
    page.locator("#result_list").get_by_role("link", name="Tea", exact=True).click()
    page.get_by_role("link", name="Delete").click()
    page.get_by_role("button", name="Yes, I’m sure").click()
    expect(page.locator(".messagelist")).to_contain_text("was deleted successfully")

    assert not Job.objects.filter(name="Tea", deleted_at=None).exists()
    assert visitor.complaints == []
