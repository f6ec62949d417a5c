"""Does every page work in a browser: no complaint, no barrier, no overflow, no weight?"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from schedules import clock
from schedules.models import Event, Execution, Job, Token
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


@pytest.mark.parametrize("mode", ["light", "phone"])
def test_long_word_makes_no_page_wider_than_the_screen(
    visit: Callable[..., Visitor], jobs: dict[str, Job], mode: str
):
    word = "x" * 200
    for model, field in ((Job, "name"), (Job, "made_by"), (Execution, "job_name"), (Event, "subject")):
        model.objects.update(**{field: word[:150] if field == "made_by" else word})
    Event.objects.update(actor=word[:150])
    Token.objects.update(name=word[:100])
    Execution.objects.filter(status="waiting").update(
        leased_to=word[:150], lease_until=clock.now() + timedelta(hours=1)
    )
    visitor = visit(mode)
    wide = []

    for name, path in all_pages(jobs).items():
        visitor.open(path)
        if overflow(visitor) > 0:
            wide.append(name)

    assert wide == []


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
