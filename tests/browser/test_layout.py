"""Where things are on a page: columns, distances, what a keyboard scrolls, and small screens."""

from collections.abc import Callable

import pytest

from schedules.models import Execution, Job
from tests.browser.checks import overflow, violations
from tests.browser.conftest import Visitor, full_matrix

pytestmark = full_matrix

# Pairs of cells or controls of which one is printed over the other, or glued to it.
OVERLAPPING = """() => [...document.querySelectorAll("table.runs tbody tr")].flatMap((row) => {
  const cells = [...row.children].filter((cell) => cell.checkVisibility()).map((cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    // What is cut off by its own box does not count.
    return [cell, cell.querySelector(".cut, .second.cut")?.getBoundingClientRect() ?? range.getBoundingClientRect()];
  });
  return cells.slice(1).filter(([, box], place) => box.width && cells[place][1].right > box.left + 1).map(([cell]) => cell.className);
})"""
GLUED = """() => {
  const boxes = [...document.querySelectorAll("main :is(.btn, pre, .tag, select, input[type=checkbox])")]
    .filter((each) => each.checkVisibility()).map((each) => [each, each.getBoundingClientRect()]);
  const glued = ([a, one], [b, two]) => !a.contains(b) && !b.contains(a)
    && one.left < two.right + 3 && two.left < one.right + 3 && one.top < two.bottom + 3 && two.top < one.bottom + 3;
  return boxes.flatMap((one, place) => boxes.slice(place + 1).filter((two) => glued(one, two)).map((two) => `${one[0].outerHTML.slice(0, 60)} / ${two[0].outerHTML.slice(0, 60)}`));
}"""


def run_of(jobs: dict[str, Job], name: str, **values: object) -> Execution:
    run = jobs[name].executions.exclude(status__in=("running", "waiting"))[0]
    Execution.objects.filter(pk=run.pk).update(**values)
    return run


@pytest.mark.parametrize("width", [768, 800, 900, 1024])
def test_columns_of_runs_do_not_overlap(visit: Callable[..., Visitor], jobs: dict[str, Job], width: int):
    Execution.objects.filter(status="succeeded").update(job_name="Irrigation heartbeat of the greenhouse")
    page = visit(viewport={"width": width, "height": 900}).open("/runs/")

    assert page.evaluate(OVERLAPPING) == []
    assert overflow(page) <= 0


@pytest.mark.parametrize("mode", ["light", "phone"])
def test_buttons_do_not_touch_what_is_beside_them(
    visit: Callable[..., Visitor], jobs: dict[str, Job], mode: str
):
    job = jobs["Price scraper"]
    run = run_of(jobs, "Price scraper", error="Boom\n" * 40, result={"a": 1})
    visitor = visit(mode, has_touch=mode == "phone")
    found = {
        path: visitor.open(path).evaluate(GLUED)
        for path in (f"/jobs/{job.public_id}/", f"/jobs/{job.public_id}/?tab=agent", f"/runs/{run.pk}/")
    }

    assert [words for glued in found.values() for words in glued] == []


def test_long_error_is_scrolled_by_keyboard(visit: Callable[..., Visitor], jobs: dict[str, Job], axe: str):
    run = run_of(jobs, "Price scraper", status="failed", error="Boom\n" * 400, traceback="At line\n" * 400)
    page = visit().open(f"/runs/{run.pk}/")
    page.locator("#error").focus()
    page.keyboard.press("End")

    page.wait_for_function("document.querySelector('#error').scrollTop > 0")
    assert violations(page, axe) == []


@pytest.mark.parametrize("width", [1280, 768, 390])
def test_selection_bar_covers_no_checkbox_and_no_switch_in_part(
    visit: Callable[..., Visitor], jobs: dict[str, Job], axe: str, width: int
):
    page = visit(viewport={"width": width, "height": 900}).open("/")
    page.get_by_label("Select Price scraper").check()
    page.locator(".bulk").wait_for()

    for height in range(600, 660, 12):
        page.set_viewport_size({"width": width, "height": height})
        # The long link of a name may be covered in part; scrolling uncovers it.
        assert [words for words in violations(page, axe) if "<a class" not in words] == [], height
