"""The list of jobs in a browser: live changes, offline, the selection, three widths and large targets."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from playwright.sync_api import Page, expect

from schedules import clock
from schedules.models import Execution, Job
from tests.browser.conftest import Visitor, full_matrix


def row(page: Page, job: Job) -> Any:
    return page.locator(f"#job-{job.pk}")


def test_change_appears_within_seconds_and_unchanged_pages_are_not_read_again(
    visit: Callable[..., Visitor], jobs: dict[str, Job]
):
    job = jobs["Cleanup temp files"]
    # A slot that passes changes the page too.
    Job.objects.exclude(next_run_at=None).update(next_run_at=clock.now() + timedelta(hours=1))
    visitor = visit()
    page = visitor.open("/")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_label("Select Stretch").check()
    with page.expect_response("**/live/"):
        pass
    with page.expect_response("**/live/"):
        pass
    assert f"{visitor.base}/" not in asked

    Job.objects.filter(pk=job.pk).update(failure_streak=1, last_error="boom")
    Execution.objects.filter(status="running").update(status="failed", finished_at=clock.now())

    expect(row(page, job).locator(".st")).to_have_text("Failing")
    expect(page).to_have_title(re.compile(r"^3 failing"))
    expect(page.locator("link[rel=icon]")).to_have_attribute("href", "/static/schedules/favicon-failing.svg")
    expect(page.get_by_label("Select Stretch")).to_be_checked()


def test_lost_connection_is_shown_and_a_switch_stays_as_it_was(
    visit: Callable[..., Visitor], jobs: dict[str, Job]
):
    page = visit().open("/")
    switch = page.locator(f"#switch-{jobs['Stretch'].pk}")

    page.context.set_offline(True)
    switch.click()
    expect(page.locator("#toasts .error")).to_contain_text("Nothing was changed.")
    expect(page.locator("#offline")).to_contain_text("offline")
    expect(switch).to_have_attribute("aria-checked", "true")
    expect(switch).not_to_have_attribute("aria-busy", "true")
    page.context.set_offline(False)

    expect(page.locator("#offline")).to_have_count(0)


@full_matrix
def test_selection_is_counted_cleared_after_the_action_and_undone(
    visit: Callable[..., Visitor], jobs: dict[str, Job]
):
    visitor = visit()
    page = visitor.open("/")
    bar = page.locator(".bulk")
    expect(bar).to_be_hidden()

    page.get_by_label("Select Stretch").check()
    page.get_by_label("Select Uptime ping").check()
    expect(bar).to_contain_text("2 selected")
    bar.get_by_role("button", name="Pause").click()
    expect(page.locator("#toasts")).to_contain_text("2 jobs paused.")
    expect(bar).to_be_hidden()
    expect(page.get_by_label("Select Stretch")).not_to_be_checked()
    page.get_by_role("button", name="Undo").click()

    expect(page.locator("#toasts")).to_contain_text("2 changes were undone.")
    assert Job.objects.filter(name="Stretch").get().status == "pending"
    assert visitor.complaints == []
