"""Typical use by keyboard alone, and over a slow network."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from schedules.models import Job
from tests.browser.conftest import Visitor, full_matrix

# A weak mobile connection.
SLOW = {"offline": False, "latency": 400, "downloadThroughput": 50_000, "uploadThroughput": 20_000}
MOST_TABS = 200


def tab_to(page: Page, selector: str) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(MOST_TABS):
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
        page.keyboard.press("Tab")
    pytest.fail(f"Tab does not reach {selector}")


@full_matrix
def test_job_is_created_and_paused_by_keyboard_alone(visit: Callable[..., Visitor], jobs: dict[str, Job]):
    visitor = visit()
    page = visitor.open("/")

    page.keyboard.press("n")
    page.wait_for_url("**/jobs/new/")
    expect(page.locator("#id_name")).to_be_focused()
    page.keyboard.type("By hand")
    tab_to(page, "#id_phrase")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("weekdays 8.30")
    tab_to(page, "[id='id_notify-message']")
    page.keyboard.type("Tea")
    tab_to(page, "[id='id_notify-topic']")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("home")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: not url.endswith("/jobs/new/"))
    job = Job.objects.get(name="By hand")
    page.goto(f"{visitor.base}/")
    tab_to(page, f"#switch-{job.pk}")
    page.keyboard.press("Space")

    expect(page.locator(f"#switch-{job.pk}")).to_have_attribute("aria-checked", "false")
    assert (job.cron, Job.objects.get(pk=job.pk).status) == ("30 8 * * 1-5", "paused")


@full_matrix
@pytest.mark.timeout(240)
@pytest.mark.parametrize("has_script", [True, False])
def test_jobs_prompts_and_tokens_are_managed_by_keyboard_alone(
    visit: Callable[..., Visitor], jobs: dict[str, Job], has_script: bool
):
    visitor, job = visit(java_script_enabled=has_script), jobs["Stretch"]
    page, toasts = visitor.open("/"), visitor.page.locator("#toasts")

    tab_to(page, f"[name=job][value={job.public_id}]")
    page.keyboard.press("Space")
    tab_to(page, ".bulk [value=pause]")
    page.keyboard.press("Enter")
    expect(toasts).to_contain_text("Stretch paused.")
    tab_to(page, "#toasts form button")
    page.keyboard.press("Enter")
    expect(toasts).to_contain_text("Stretch resumed.")
    page = visitor.open(f"/jobs/{job.public_id}/")
    tab_to(page, ".head .menu > summary")
    page.keyboard.press("Enter")
    tab_to(page, ".menu form[action$='/skip/'] button")
    page.keyboard.press("Enter")
    expect(page.locator(".ahead-list li.off")).to_have_count(1)
    page = visitor.open("/inbox/")
    tab_to(page, "details.more > summary")
    page.keyboard.press("Enter")
    tab_to(page, "[name=answer]")
    page.keyboard.type("All is well.")
    tab_to(page, "form[action$='/answer/'] button")
    page.keyboard.press("Enter")
    expect(toasts).to_contain_text("Morning briefing answered")
    page = visitor.open("/connect/")
    tab_to(page, "#id_name")
    page.keyboard.type("desk")
    page.keyboard.press("Enter")

    expect(page.locator("#token")).to_contain_text("cronty_")
    assert Job.objects.get(pk=job.pk).skips != ""


@full_matrix
@pytest.mark.timeout(240)
def test_slow_network_delays_but_loses_nothing(visit: Callable[..., Visitor], jobs: dict[str, Job]):
    visitor = visit()
    visitor.page.set_default_timeout(60_000)
    wire = visitor.page.context.new_cdp_session(visitor.page)
    wire.send("Network.enable")
    wire.send("Network.emulateNetworkConditions", SLOW)
    page = visitor.open("/jobs/new/")

    page.fill("#id_name", "Slowly")
    page.fill("#id_phrase", "every day at 9:00")
    page.fill("[id='id_notify-message']", "Tea")
    page.fill("[id='id_notify-topic']", "home")
    page.get_by_role("button", name="Create job", exact=True).click()
    page.wait_for_url(lambda url: not url.endswith("/jobs/new/"))
    job = Job.objects.get(name="Slowly")
    page.goto(f"{visitor.base}/")
    page.click(f"#switch-{job.pk}")

    expect(page.locator(f"#switch-{job.pk}")).to_have_attribute("aria-checked", "false", timeout=60_000)
    assert Job.objects.get(pk=job.pk).status == "paused"
    assert visitor.complaints == []
