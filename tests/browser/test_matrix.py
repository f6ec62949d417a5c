"""Every page in every mode and state: accessible, never wider than the screen, with targets that a finger can hit."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User

from schedules.models import Job
from tests.browser.checks import SMALLER_THAN_A_FINGER, listed, opened_violations, overflow, violations
from tests.browser.conftest import Visitor, full_matrix
from tests.browser.matrix import MISTAKES, MODES, WIDTHS, admin_pages, all_pages
from tests.browser.sample_results import result_pages


def problems(visitor: Visitor, axe: str, paths: dict[str, str]) -> dict[str, list[str]]:
    found = {}
    for name, path in paths.items():
        page = visitor.open(path)
        words = violations(page, axe) + opened_violations(page, axe)
        if words or overflow(page) > 0:
            found[name] = words or ["wider than the screen"]
    return found


@full_matrix
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("mode", list(MODES))
def test_no_page_has_an_accessibility_violation_with_anything_open(
    visit: Callable[..., Visitor], owner: User, jobs: dict[str, Job], axe: str, mode: str
):
    visitor = visit(mode)
    found = problems(visitor, axe, all_pages(jobs) | result_pages(owner))

    assert not found, listed(found)
    assert visitor.complaints == []


@full_matrix
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("mode", list(MODES))
def test_no_admin_page_has_an_accessibility_violation(
    visit: Callable[..., Visitor], jobs: dict[str, Job], operator: User, axe: str, mode: str
):
    visitor = visit(mode, user=operator)
    found = problems(visitor, axe, admin_pages(jobs))

    assert not found, listed(found)


@full_matrix
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_name_of_the_product_can_be_read_in_the_admin(
    visit: Callable[..., Visitor], operator: User, mode: str
):
    page = visit(mode, user=operator).open("/admin/")

    # axe leaves out text in the colour of its background.
    name = page.locator("#site-name a").evaluate("(link) => getComputedStyle(link).color")
    paper = page.locator("#header").evaluate("(header) => getComputedStyle(header).backgroundColor")
    assert (page.locator("#site-name").inner_text(), name == paper) == ("Cronty", False)


@full_matrix
@pytest.mark.parametrize("mode", list(MODES))
def test_no_error_has_an_accessibility_violation(
    visit: Callable[..., Visitor], jobs: dict[str, Job], axe: str, mode: str
):
    visitor = visit(mode)
    found = {}

    for name, mistake in MISTAKES.items():
        page = visitor.open(mistake.path)
        for place, text in mistake.typed.items():
            page.fill(place, text)
        page.locator("main").get_by_role("button", name=mistake.button, exact=True).first.click()
        page.locator(".err, .errbox").first.wait_for()
        if words := violations(page, axe):
            found[name] = words
    missing = visitor.open("/jobs/nobody/")
    assert "Page not found" in missing.inner_text("h1")
    found |= {"missing page": words} if (words := violations(missing, axe)) else {}
    missing.context.clear_cookies()
    login = visitor.open("/login/")
    login.click("text=Log in")
    found |= {"login": words} if (words := violations(login, axe)) else {}

    assert not found, listed(found)


def wide(visitor: Visitor, paths: dict[str, str], widths: tuple[int, ...]) -> dict[str, list[int]]:
    """Return the widths at which each page scrolls sideways."""
    found: dict[str, list[int]] = {}
    for name, path in paths.items():
        page = visitor.open(path)
        for width in widths:
            page.set_viewport_size({"width": width, "height": 900})
            if overflow(page) > 0:
                found.setdefault(name, []).append(width)
    return found


@pytest.mark.verify
def test_main_pages_never_scroll_sideways(visit: Callable[..., Visitor], jobs: dict[str, Job]):
    paths = all_pages(jobs)
    some = {name: paths[name] for name in ("jobs", "job", "new", "run", "runs", "calendar")}

    assert wide(visit(), some, (320, 2560)) == {}


@full_matrix
def test_no_page_scrolls_sideways_at_any_width(
    visit: Callable[..., Visitor], owner: User, jobs: dict[str, Job]
):
    assert wide(visit(), all_pages(jobs) | result_pages(owner), WIDTHS) == {}


@full_matrix
def test_every_target_is_large_enough_for_a_finger(
    visit: Callable[..., Visitor], owner: User, jobs: dict[str, Job]
):
    visitor = visit("phone", has_touch=True, is_mobile=True)
    found = {}

    for name, path in (all_pages(jobs) | result_pages(owner)).items():
        if small := visitor.open(path).evaluate(SMALLER_THAN_A_FINGER):
            found[name] = small[:5]

    assert not found, listed(found)
