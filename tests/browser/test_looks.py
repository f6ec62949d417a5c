"""Screenshots of every page in every mode, compared with the approved ones; `make approve` replaces those."""

import os
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Browser

from tests.browser.conftest import Visitor, full_matrix
from tests.browser.looks import Look, approve, look_of, read_approved
from tests.browser.matrix import MODES, all_pages
from tests.browser.sample import fill
from tests.browser.sample_results import result_pages
from tests.browser.site import ROOT

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
PICTURES = ROOT / ".cache" / "pictures"


@full_matrix
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("mode", list(MODES))
def test_pages_look_as_approved(
    visit: Callable[..., Visitor], browser: Browser, owner: User, time_machine, mode: str
):
    time_machine.move_to(NOON, tick=False)
    jobs = {job.name: job for job in fill(owner)}
    approved = read_approved()
    is_approving = bool(os.environ.get("APPROVE"))
    if not approved and not is_approving:
        pytest.skip("no picture is approved yet: make approve")
    PICTURES.mkdir(parents=True, exist_ok=True)
    visitor = visit(mode, bypass_csp=True, reduced_motion="reduce")
    visitor.page.clock.set_fixed_time(NOON)
    blank = browser.new_page()

    looks = {}
    for name, path in (all_pages(jobs) | result_pages(owner)).items():
        page = visitor.open(path)
        file = PICTURES / f"{name}, {mode}.png"
        looks[f"{name}, {mode}"] = look_of(page, blank, file)
    blank.close()

    if is_approving:
        approve(looks)
        return
    unknown = Look(0, 0, b"")
    changed = {name: look.difference(approved.get(name, unknown)) for name, look in looks.items()}
    assert {name: words for name, words in changed.items() if words} == {}, f"see {PICTURES}"


def test_small_difference_is_allowed_and_a_large_one_is_not():
    approved = Look(10, 10, bytes(300))
    noise = Look(10, 10, bytes([9] * 300))
    moved = Look(10, 10, bytes([90] * 30 + [0] * 270))

    assert noise.difference(approved) == ""
    assert moved.difference(approved) == "10.0% of the cells changed"
    assert Look(10, 11, bytes(330)).difference(approved) == "10 × 11 cells instead of 10 × 10"
    assert Look.read(moved.stored()) == moved
