"""The command palette with the keyboard: pages, jobs, and what is done with them."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from schedules.models import Execution, Job
from tests.browser.conftest import Visitor, full_matrix


def open_palette(page: Page, typed: str) -> None:
    page.keyboard.press("ControlOrMeta+k")
    expect(page.get_by_role("combobox", name="Job, page or action")).to_be_focused()
    page.keyboard.type(typed)


@full_matrix
def test_page_is_opened_with_the_keyboard_alone(visit: Callable[..., Visitor], jobs: dict[str, Job]):
    visitor = visit()
    page = visitor.open("/")

    open_palette(page, "calen")
    expect(page.locator("#palette [aria-selected=true]")).to_have_text("Calendar")
    page.keyboard.press("Enter")

    expect(page).to_have_url(f"{visitor.base}/calendar/")
    assert visitor.complaints == []


@full_matrix
@pytest.mark.parametrize("key", ["ArrowUp"])
def test_arrows_say_to_screen_readers_what_is_chosen(
    visit: Callable[..., Visitor], jobs: dict[str, Job], key: str
):
    page = visit().open("/runs/")

    open_palette(page, "")
    page.keyboard.press(key)

    chosen = page.locator("#palette [aria-selected=true]")
    expect(chosen).to_have_count(1)
    expect(page.get_by_role("combobox", name="Job, page or action")).to_have_attribute(
        "aria-activedescendant", chosen.get_attribute("id") or ""
    )


def test_job_is_found_and_run_by_name(visit: Callable[..., Visitor], jobs: dict[str, Job]):
    visitor = visit()
    page = visitor.open("/")

    open_palette(page, "run stand-up")
    expect(page.locator("#palette [aria-selected=true]")).to_contain_text("Run Stand-up reminder now")
    page.keyboard.press("Enter")

    expect(page.locator("#toasts")).to_contain_text("Stand-up reminder started")
    assert Execution.objects.filter(job=jobs["Stand-up reminder"], cause="manual").count() == 1
    assert visitor.complaints == []
