"""Every page in a browser: no errors, no accessibility violations, no overflow."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from schedules import clock
from schedules.models import Event, Execution, Job, Token
from tests.browser.conftest import MODES, Visitor, all_pages, full_matrix

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def violations(visitor: Visitor, axe: str) -> list[str]:
    """Run axe on the open page, bypassing its content security policy."""
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


@pytest.mark.parametrize("mode", ["light", "phone"])
def test_every_page_opens_without_errors_and_does_not_overflow_with_long_words(
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
    headings, wide = {}, []

    for name, path in all_pages(jobs).items():
        visitor.open(path)
        headings[name] = visitor.page.locator("h1").count()
        if overflow(visitor) > 0:
            wide.append(name)

    assert set(headings.values()) == {1}, headings
    assert wide == []
    assert visitor.complaints == []


@full_matrix
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", list(MODES))
def test_no_page_has_an_accessibility_violation(
    visit: Callable[..., Visitor], jobs: dict[str, Job], axe: str, mode: str
):
    visitor = visit(mode)
    found = {}

    for name, path in all_pages(jobs).items():
        visitor.open(path)
        if problems := violations(visitor, axe):
            found[name] = problems
        if overflow(visitor) > 0:
            found.setdefault(name, []).append("wider than the screen")

    assert found == {}
    assert visitor.complaints == []


@full_matrix
@pytest.mark.parametrize("mode", list(MODES))
def test_pages_without_a_login_have_no_accessibility_violation(
    visit: Callable[..., Visitor], jobs: dict[str, Job], axe: str, mode: str
):
    visitor = visit(mode)
    missing = visitor.open("/jobs/nobody/")
    assert "Page not found" in missing.inner_text("h1")
    assert violations(visitor, axe) == []

    visitor.page.context.clear_cookies()
    visitor.open("/login/")

    assert violations(visitor, axe) == []


@full_matrix
def test_form_errors_have_no_accessibility_violation(
    visit: Callable[..., Visitor], jobs: dict[str, Job], axe: str
):
    visitor = visit()
    page = visitor.open("/jobs/new/")

    page.click("text=Create job")

    assert page.locator(".err").count() >= 3
    assert violations(visitor, axe) == []
