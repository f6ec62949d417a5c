"""What is checked on an open page: accessibility, width, and the size of what a finger hits."""

from typing import Any

from playwright.sync_api import Page

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# What a finger can hit; a link inside a sentence may be smaller, and the list below a chart has its links, too.
SMALLER_THAN_A_FINGER = """() => [...document.querySelectorAll("a, button, input, select, summary")]
  .filter((each) => each.type !== "hidden" && each.checkVisibility() && !each.closest(".skip, .sr, p, svg"))
  .map((each) => [each, each.getBoundingClientRect()])
  .filter(([each, box]) => box.width > 1 && Math.min(box.width, box.height) < 39.5 && !each.closest("label"))
  .map(([each]) => each.outerHTML.slice(0, 100))"""
# One of each kind: rows of a list repeat the same menu.
OPENABLE = """() => {
  const kinds = new Set();
  return [...document.querySelectorAll("details:not([open]) > summary")].map((each, place) => {
    const kind = each.parentElement.className + "/" + (each.getAttribute("aria-label") || each.innerText).replace(/[^a-z ]/gi, "").slice(0, 7);
    const isNew = each.checkVisibility() && !kinds.has(kind);
    kinds.add(kind);
    return isNew ? place : -1;
  }).filter((place) => place >= 0);
}"""


def violations(page: Page, axe: str, within: str = "document") -> list[str]:
    """Run axe on the open page, bypassing its content security policy."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(axe)
    # What the bar of a form covers on a phone can be scrolled free.
    page.evaluate(
        "document.querySelectorAll('.form-end').forEach((bar) => { bar.style.position = 'static'; })"
    )
    found: Any = page.evaluate(f"rules => axe.run({within}, {{runOnly: rules}})", RULES)
    return [
        f"{each['id']}: {node['html'][:200]}" for each in found["violations"] for node in each["nodes"][:3]
    ]


def opened_violations(page: Page, axe: str) -> list[str]:
    """Open every kind of menu, popover and dialog of a page, one at a time, and run axe on it."""
    found = []
    closed = "[...document.querySelectorAll('details:not([open]) > summary')]"
    for place in page.evaluate(OPENABLE):
        page.evaluate(
            f"place => {{ window.opened = {closed}[place].parentElement; opened.open = true; }}", place
        )
        found += [f"opened: {words}" for words in violations(page, axe, "window.opened")]
        found += ["opened: wider than the screen"] * (overflow(page) > 0)
        page.evaluate("opened.open = false")
    for place in range(page.locator("dialog").count()):
        page.evaluate(
            "place => { window.opened = document.querySelectorAll('dialog')[place]; opened.showModal(); }",
            place,
        )
        found += [f"dialog: {words}" for words in violations(page, axe, "window.opened")]
        page.evaluate("opened.close()")
    return found


def listed(found: dict[str, list[str]]) -> str:
    """Return one line for each thing found, which pytest shows in full."""
    return "\n".join(f"{page}: {words}" for page, all_words in found.items() for words in all_words)


def overflow(page: Page) -> int:
    """Return how many pixels the page is wider than the screen."""
    width: int = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return width
