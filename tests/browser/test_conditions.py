"""Every flow in every condition: by keyboard, without JavaScript, on a slow network, after a lost session, in two tabs."""

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from playwright.sync_api import Browser, Dialog, Page, expect

from tests.browser.account_flows import ACCOUNT, READING
from tests.browser.conftest import IS_FULL, Visitor
from tests.browser.flow_data import PASSWORD, Data, Flow, make_data
from tests.browser.job_flows import CHANGING, CREATING
from tests.browser.people import KeyboardPerson, Person, fill, press
from tests.sink import Answer, Sink

# A weak mobile connection.
SLOW = {"offline": False, "latency": 300, "downloadThroughput": 50_000, "uploadThroughput": 20_000}
ERROR_PAGES = ("Page not found", "Bad request", "No access", "Something went wrong", "session has expired")
ASLEEP = {"version": "0", "soon": False}
# What `make test` tries; `make browser` tries everything.
FEW = {
    ("skip the next run", "keyboard"),
    ("pause in the list", "no JavaScript"),
    ("run now", "slow network"),
    ("create a notification", "lost session"),
    ("delete a job", "two tabs"),
}
Visit = Callable[..., Visitor]


@pytest.fixture
def data(
    browser: Browser,
    transactional_db: None,
    owner: User,
    use_commands: Callable[[str], None],
    settings: LazySettings,
) -> Iterator[Data]:
    with Sink(Answer(body=b'{"id": "abc"}', headers={"Content-Type": "application/json"})) as sink:
        settings.NTFY_URL = sink.url()
        yield make_data(owner, sink, use_commands)


def enter(visit: Visit, flow: Flow, data: Data, **options: Any) -> Page:
    """Open the start page as the person of the flow, who confirms every question."""
    flow.prepare(data)
    visitor = visit(user=data.owner if flow.person == "owner" else None, **options)
    if flow.person == "nobody":
        visitor.page.context.clear_cookies()
    visitor.page.on("dialog", agree)
    return visitor.open(data.path(flow.start))


def agree(dialog: Dialog) -> None:
    dialog.accept()


def sleep_on(page: Page) -> None:
    """Keep news from a page, which would bring it up to date, or to the log-in, before the person presses."""
    page.route("**/live/", lambda route: route.fulfill(json=ASLEEP))
    page.route("**/console/", lambda route: route.fulfill(status=204))


def check_done(page: Page, flow: Flow, data: Data) -> None:
    expect_seen(page, flow.seen)
    if flow.finds:
        expect(page.locator(flow.finds)).to_have_count(1)
    if flow.stored is not None:
        assert flow.stored(data) == flow.becomes


def expect_seen(page: Page, words: str) -> None:
    try:
        expect(page.locator("body")).to_contain_text(re.compile(words, re.DOTALL))
    except AssertionError:
        shown = page.locator("#toasts").all_inner_texts() + page.locator("main").all_inner_texts()
        raise AssertionError(
            f"{words!r} is not on {page.url}: {' '.join(' '.join(shown).split())[:700]}"
        ) from None
    heading = page.locator("h1").first.inner_text()
    assert not any(error in heading for error in ERROR_PAGES), heading


def by_keyboard(visit: Visit, flow: Flow, data: Data) -> None:
    page = enter(visit, flow, data)

    KeyboardPerson(page).do(*flow.steps, flow.send)

    check_done(page, flow, data)


def without_script(visit: Visit, flow: Flow, data: Data) -> None:
    page = enter(visit, flow, data, java_script_enabled=False)
    person = Person(page)

    person.do(*flow.steps, flow.send)
    if flow.send.kind == "fill":
        person.do(press("Search"))

    check_done(page, flow, data)


def on_a_slow_network(visit: Visit, flow: Flow, data: Data) -> None:
    """Press twice, because nothing seems to happen: it is done once."""
    page = enter(visit, flow, data)
    person = Person(page)
    person.do(*flow.steps)
    wire = page.context.new_cdp_session(page)
    wire.send("Network.enable")
    wire.send("Network.emulateNetworkConditions", SLOW)

    if flow.send.kind == "fill":
        person.do(flow.send)
    else:
        person.press_twice(flow.send)

    check_done(page, flow, data)
    expect(page.locator("#toasts .error")).to_have_count(0)


def after_a_lost_session(visit: Visit, flow: Flow, data: Data) -> None:
    page = enter(visit, flow, data)
    sleep_on(page)
    person = Person(page)
    person.do(*flow.steps)
    before = flow.stored(data) if flow.stored else None
    page.context.clear_cookies(name="sessionid")

    person.do(flow.send)
    expect(page.locator("h1")).to_have_text("Log in")
    if flow.stored is not None:
        expect_seen(page, "nothing was changed")
        assert flow.stored(data) == before
    person.do(fill("Email or username", data.owner.username), fill("Password", PASSWORD), press("Log in"))

    if flow.reads and flow.send.kind != "fill":
        check_done(page, flow, data)
        return
    if flow.typed and flow.keeps:
        for step in flow.typed:
            person.expect_typed(step)
        person.do(flow.send)
    else:
        expect(page).to_have_url(f"http://{urlsplit(page.url).netloc}{data.path(flow.start)}")
        person.do(*flow.steps, flow.send)
    check_done(page, flow, data)


def in_two_tabs(visit: Visit, flow: Flow, data: Data) -> None:
    """Send the form in a tab that does not know what the other one has done."""
    page = enter(visit, flow, data)
    second = page.context.new_page()
    second.on("dialog", agree)
    sleep_on(second)
    second.goto(page.url)
    first, other = Person(page), Person(second, is_second=True)
    other.do(*flow.steps)
    first.do(*flow.steps, flow.send)
    check_done(page, flow, data)

    other.do(flow.send)

    expect_seen(second, flow.stale or flow.seen)
    if flow.stored is not None:
        assert flow.stored(data) == (flow.becomes if flow.stays is None else flow.stays)
    if flow.resolve:
        other.do(*flow.resolve)
        expect(second.locator("#toasts")).to_contain_text("aved")
        assert flow.stored is not None
        assert flow.stored(data) == flow.resolved


CONDITIONS = {
    "keyboard": by_keyboard,
    "no JavaScript": without_script,
    "slow network": on_a_slow_network,
    "lost session": after_a_lost_session,
    "two tabs": in_two_tabs,
}
CASES = [
    pytest.param(flow, condition, id=f"{name}, {condition}")
    for name, flow in (CREATING | CHANGING | ACCOUNT | READING).items()
    for condition in CONDITIONS
    if condition not in flow.leave_out and (IS_FULL or (name, condition) in FEW)
]


@pytest.mark.parametrize(("flow", "condition"), CASES)
def test_flow_ends_as_it_should(visit: Visit, data: Data, flow: Flow, condition: str):
    CONDITIONS[condition](visit, flow, data)
