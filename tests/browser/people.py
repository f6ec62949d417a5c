"""How a person uses a page: steps that are written once, and done with a pointer or with the keyboard alone."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

MOST_TABS = 250
IS_FOCUSED = "element => element === document.activeElement"
# The ring of a control that is drawn by its label, such as a switch between tabs, counts as well.
SHOWS_FOCUS = """element => [element, element.closest("label")].some((each) => {
  if (!each) return false;
  const style = getComputedStyle(each);
  return (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== "none";
})"""


@dataclass(frozen=True)
class Step:
    """One thing that a person does: `kind` says what, `name` is what the control is called."""

    kind: str
    name: str
    value: str = ""
    other: str = ""
    """What the same person types into a second tab, if not the same."""
    within: str = "body"
    key: str = "Enter"

    @property
    def is_typed(self) -> bool:
        return self.kind in ("fill", "choose")


def fill(label: str, text: str, other: str = "") -> Step:
    return Step("fill", label, text, other)


def choose(label: str, option: str, other: str = "") -> Step:
    return Step("choose", label, option, other)


def pick(label: str) -> Step:
    """Choose one of several radio buttons."""
    return Step("radio", label)


def tick(label: str) -> Step:
    return Step("checkbox", label, key="Space")


def switch(label: str) -> Step:
    return Step("switch", label, key="Space")


def unfold(name: str, within: str = "main") -> Step:
    """Open a menu or another part that is folded."""
    return Step("summary", name, within=within)


def press(name: str, within: str = "body") -> Step:
    return Step("button", name, within=within)


def follow(name: str, within: str = "body") -> Step:
    return Step("link", name, within=within)


class Person:
    """Somebody at a page with a pointer."""

    def __init__(self, page: Page, *, is_second: bool = False) -> None:
        self.page = page
        self.is_second = is_second

    def find(self, step: Step) -> Locator:
        inside = self.page.locator(step.within).first
        match step.kind:
            case "fill" | "choose":
                found = inside.get_by_label(re.compile(rf"^\s*{re.escape(step.name)}\b"))
                found = found.and_(self.page.locator("input:not([type=radio]), select, textarea"))
            case "summary":
                found = inside.locator("summary").filter(has_text=re.compile(rf"^\s*{re.escape(step.name)}"))
                found = found.or_(inside.locator(f'summary[aria-label^="{step.name}"]'))
            case "radio":
                found = inside.get_by_role("radio", name=re.compile(rf"^\s*{re.escape(step.name)}"))
            case kind:
                role: Any = kind
                words = re.compile(rf"^\s*{re.escape(step.name)}$" if step.name else "")
                found = inside.get_by_role(role, name=words)
        return found.locator("visible=true").first

    def text_of(self, step: Step) -> str:
        return step.other if self.is_second and step.other else step.value

    def do(self, *steps: Step) -> None:
        for step in steps:
            found = self.find(step)
            match step.kind:
                case "fill":
                    found.fill(self.text_of(step))
                case "choose":
                    found.select_option(label=self.text_of(step))
                case "radio" | "checkbox":
                    found.check()
                case _:
                    found.click()

    def press_twice(self, step: Step) -> None:
        self.find(step).dblclick(no_wait_after=True)

    def expect_typed(self, step: Step) -> None:
        found = self.find(step)
        if step.kind == "choose":
            expect(found.locator("option:checked")).to_have_text(self.text_of(step))
        else:
            expect(found).to_have_value(self.text_of(step))


class KeyboardPerson(Person):
    """Somebody without a pointer, who must always see where the focus is."""

    def reach(self, found: Locator, *, is_same: str = IS_FOCUSED) -> None:
        element = found.element_handle()
        for _ in range(MOST_TABS):
            if element.evaluate(is_same):
                break
            self.page.keyboard.press("Tab")
        else:
            pytest.fail(f"Tab does not reach {found}")
        # What has the focus may not be the element itself: of several radio buttons, Tab reaches the chosen one.
        focused = self.page.evaluate_handle("document.activeElement")
        assert focused.evaluate(SHOWS_FOCUS), f"no focus ring: {focused.evaluate('e => e.outerHTML')[:200]}"

    def type_moment(self, moment: datetime) -> None:
        """Type into the parts of a field for a moment, in the order of American English."""
        self.page.keyboard.type(f"{moment:%m%d%Y}")
        self.page.keyboard.press("ArrowRight")
        self.page.keyboard.type(f"{moment:%I%M%S%p}")

    def do(self, *steps: Step) -> None:
        type_text: Callable[[str], None] = self.page.keyboard.type
        for step in steps:
            found = self.find(step)
            match step.kind:
                case "radio":
                    self.reach(found, is_same="element => element.name === document.activeElement.name")
                    for _ in range(MOST_TABS):
                        if found.is_checked():
                            break
                        self.page.keyboard.press("ArrowDown")
                case "fill":
                    self.reach(found)
                    if found.get_attribute("type") == "datetime-local":
                        self.type_moment(datetime.fromisoformat(self.text_of(step)))
                        continue
                    self.page.keyboard.press("ControlOrMeta+a")
                    type_text(self.text_of(step))
                case "choose":
                    self.reach(found)
                    # A closed list chooses what begins with the typed letters.
                    type_text(self.text_of(step))
                case _:
                    self.reach(found)
                    self.page.keyboard.press(step.key)
