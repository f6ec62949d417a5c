"""The output of a run in a browser: search, and lines that are wrapped or not."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from schedules import engine
from schedules.models import Job
from schedules.tasks.commands.output import KeptOutput
from schedules.tasks.interface import OutputText
from tests.browser.checks import violations
from tests.browser.conftest import Visitor, full_matrix
from tests.factories import ExecutionFactory, JobFactory


@pytest.fixture
def log(visit: Callable[..., Visitor], jobs: dict[str, Job], owner: User) -> Page:
    run = ExecutionFactory(job=JobFactory(owner=owner), status="failed", attempt=1, error="exit 1")
    lines = [f"line {number}" for number in range(1, 201)]
    lines[49] = lines[149] = "Disk is FULL " + "x" * 400
    text = "\n".join(lines)
    engine.save_output(run.pk, 1, OutputText(text, "", len(text)))
    return visit().open(f"/runs/{run.pk}/")


def test_matches_are_counted_and_stepped_through(log: Page):
    found = log.locator("#found")

    log.get_by_label("Search the output").fill("disk is full")
    expect(found).to_have_text("1 of 2")
    expect(log.locator("#L50")).to_be_in_viewport()
    log.keyboard.press("Enter")
    expect(found).to_have_text("2 of 2")
    expect(log.locator("#L150")).to_be_in_viewport()
    log.keyboard.press("Shift+Enter")
    expect(found).to_have_text("1 of 2")
    log.get_by_label("Search the output").fill("nothing like it")
    expect(found).to_have_text("No match")


@full_matrix
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_colours_of_an_output_can_be_read_and_searched(
    visit: Callable[..., Visitor], jobs: dict[str, Job], owner: User, axe: str, mode: str
):
    run = ExecutionFactory(job=JobFactory(owner=owner), status="failed", attempt=1, error="exit 1")
    output = KeptOutput(10_000)
    output.add(1, b"".join(b"\x1b[1;%dmcolour\x1b[0m %d\n" % (number, number) for number in range(30, 38)))
    engine.save_output(run.pk, 1, output.text)
    page = visit(mode).open(f"/runs/{run.pk}/")

    page.get_by_label("Search the output").fill("colour 33")

    expect(page.locator("#found")).to_have_text("1 of 1")
    assert page.locator("pre.lines .a-red").inner_text() == "colour"
    assert violations(page, axe) == []
