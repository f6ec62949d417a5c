"""Where things are on a page: columns, distances, what a keyboard scrolls, and small screens."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User

from schedules.models import Execution, Job, Profile, Token
from tests.browser.checks import overflow, violations
from tests.browser.conftest import Visitor, full_matrix
from tests.browser.sample_results import result_pages

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


def test_filters_of_runs_leave_no_hole_on_a_tablet(
    visit: Callable[..., Visitor], jobs: dict[str, Job], admin_user: User
):
    Profile.objects.get_or_create(user=admin_user)
    page = visit(viewport={"width": 768, "height": 900}, user=admin_user).open("/runs/")

    gaps = page.evaluate(
        """() => {
          const boxes = [...document.querySelectorAll("form.card.row :is(input:not([type=hidden]), select, .btn)")]
            .map((each) => each.getBoundingClientRect());
          return boxes.slice(1).map((box, place) => box.top === boxes[place].top ? box.left - boxes[place].right : 0);
        }"""
    )
    assert max(gaps) <= 20


def test_filters_of_a_job_stay_in_one_line_on_a_tablet(visit: Callable[..., Visitor], jobs: dict[str, Job]):
    page = visit(viewport={"width": 768, "height": 900}).open(f"/jobs/{jobs['Price scraper'].public_id}/")

    tops = page.eval_on_selector_all(
        ".listhead :is(select, .btn)",
        "all => all.map((each) => Math.round(each.getBoundingClientRect().bottom / 20))",
    )
    assert len(set(tops)) == 1


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


def test_navigation_still_shows_where_a_rotated_token_is(
    visit: Callable[..., Visitor], jobs: dict[str, Job], owner: User
):
    page = visit().open("/connect/")
    assert Token.objects.filter(owner=owner).exists()
    page.get_by_role("button", name="Rotate").first.click()
    page.get_by_role("button", name="Copy").first.wait_for()

    assert page.locator("nav [aria-current=page]").inner_text() == "Connect an agent"


def test_today_is_marked_in_forced_colours(visit: Callable[..., Visitor], jobs: dict[str, Job]):
    page = visit("forced colors").open("/calendar/")

    outline = page.eval_on_selector("td.today", "cell => getComputedStyle(cell).outlineStyle")
    assert outline == "solid"


def test_calendar_on_a_phone_begins_with_today(visit: Callable[..., Visitor], jobs: dict[str, Job]):
    page = visit("phone").open("/calendar/?view=week")
    assert "today" in str(page.locator("table.cal td:visible").first.get_attribute("class"))

    earlier = page.locator(".show-earlier input")
    if earlier.count():
        earlier.check()
        assert page.locator("td.today").is_visible()


def test_inputs_of_a_secret_are_not_as_wide_as_the_page(visit: Callable[..., Visitor], jobs: dict[str, Job]):
    page = visit().open("/settings/secrets/")

    widths = page.eval_on_selector_all(
        "#secret-form :is(input[type=text], textarea)", "all => all.map((each) => each.offsetWidth)"
    )
    assert max(widths) <= 600


def test_box_of_a_job_on_a_phone_is_apart_from_its_name(visit: Callable[..., Visitor], jobs: dict[str, Job]):
    page = visit("phone", has_touch=True).open("/")

    row = page.locator("table.jobs tbody tr").first
    box, name = row.locator("input").bounding_box(), row.locator("a.name").bounding_box()
    assert box
    assert name
    # The box that is drawn has 20 pixels in the middle of its target.
    assert name["x"] - (box["x"] + box["width"] / 2 + 10) >= 8


def test_error_in_the_list_of_jobs_has_two_lines(visit: Callable[..., Visitor], jobs: dict[str, Job]):
    Job.objects.filter(name="Price scraper").update(last_error="HTTP 404 Not Found: No route")
    page = visit().open("/")

    why = page.locator(f"#job-{jobs['Price scraper'].pk} .why")
    assert why.evaluate(
        "each => each.scrollHeight <= each.clientHeight + 1 && each.scrollWidth <= each.clientWidth"
    )


def test_bar_of_a_run_has_room_in_the_list(visit: Callable[..., Visitor], jobs: dict[str, Job]):
    page = visit().open("/")

    strip = page.locator("svg.strip").first
    [_, _, width, _] = (strip.get_attribute("viewBox") or "").split()
    box = strip.bounding_box()

    # Seven units a run.
    assert box
    assert box["width"] / float(width) * 7 >= 6


def test_name_in_another_script_begins_where_the_column_begins(
    visit: Callable[..., Visitor], jobs: dict[str, Job]
):
    Job.objects.filter(pk=jobs["Stretch"].pk).update(name="نسخة احتياطية")
    page = visit().open("/")

    left = """element => {
      const range = document.createRange();
      range.selectNodeContents(element);
      return Math.round(range.getBoundingClientRect().left);
    }"""
    names = page.locator("table.jobs a.name")

    assert len({names.nth(place).evaluate(left) for place in range(names.count())}) == 1


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


@pytest.mark.parametrize("mode", ["light", "phone"])
def test_alerts_are_read_across_the_page(visit: Callable[..., Visitor], owner: User, mode: str):
    paths = result_pages(owner)
    page = visit(mode).open(paths["alerts"])

    shares = page.evaluate(
        """() => [...document.querySelectorAll(".alerts > li")].map((row) =>
          row.firstElementChild.getBoundingClientRect().width / row.getBoundingClientRect().width)"""
    )
    assert shares
    assert min(shares) > 0.3
