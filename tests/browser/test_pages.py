"""Does every page work in a browser: no complaint, no barrier, no overflow, no weight?"""

from collections.abc import Callable
from typing import Any

import pytest

from schedules.models import Job
from tests.browser.conftest import MODES, Visitor, all_pages, full_matrix

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def barriers(visitor: Visitor, axe: str) -> list[str]:
    """Run axe on the open page, past its content policy."""
    visitor.page.evaluate(axe)
    found: Any = visitor.page.evaluate("rules => axe.run(document, {runOnly: rules})", RULES)
    return [
        f"{each['id']}: {node['html'][:200]}" for each in found["violations"] for node in each["nodes"][:3]
    ]


def overflow(visitor: Visitor) -> int:
    width: int = visitor.page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return width


def test_every_page_opens_without_a_complaint(visit: Callable[..., Visitor], jobs: dict[str, Job]):
    visitor = visit()

    for name, path in all_pages(jobs).items():
        visitor.open(path)
        assert visitor.page.locator("h1").count() == 1, name

    assert visitor.complaints == []


@full_matrix
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", list(MODES))
def test_no_page_has_a_barrier(visit: Callable[..., Visitor], jobs: dict[str, Job], axe: str, mode: str):
    visitor = visit(mode)
    found = {}

    for name, path in all_pages(jobs).items():
        visitor.open(path)
        if problems := barriers(visitor, axe):
            found[name] = problems
        if overflow(visitor) > 0:
            found.setdefault(name, []).append("wider than the screen")

    assert found == {}
    assert visitor.complaints == []


@full_matrix
@pytest.mark.parametrize("mode", list(MODES))
def test_pages_for_nobody_have_no_barrier(
    visit: Callable[..., Visitor], jobs: dict[str, Job], axe: str, mode: str
):
    visitor = visit(mode)
    missing = visitor.open("/jobs/nobody/")
    assert "Not found" in missing.inner_text("h1")
    assert barriers(visitor, axe) == []

    visitor.page.context.clear_cookies()
    visitor.open("/login/")

    assert barriers(visitor, axe) == []


@full_matrix
def test_every_form_error_has_no_barrier(visit: Callable[..., Visitor], jobs: dict[str, Job], axe: str):
    visitor = visit()
    page = visitor.open("/jobs/new/")

    page.click("text=Create job")

    assert page.locator(".err").count() >= 3
    assert barriers(visitor, axe) == []
