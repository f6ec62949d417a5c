"""The MCP Apps in the official host: what they show, and what their buttons do."""

import os
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, FrameLocator, Page, Route, expect

from schedules.mcp.apps import AGENDA, CARD, PAGE_OF_TOOL, page
from schedules.mcp.auth import local_caller, set_local_caller
from schedules.models import Job
from tests.browser.conftest import full_matrix
from tests.browser.site import ROOT
from tests.factories import JobFactory
from tests.mcp.agents import InMemory
from tests.waiting import PATIENCE

MODULES = ROOT / ".cache" / "node_modules"
# What a host allows a page that names no domains.
CLOSED = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'"
APP, HOST = "https://app.test/", "https://host.test/"
LARGEST = 40_000


@pytest.fixture(scope="module")
def host_script(tmp_path_factory: pytest.TempPathFactory) -> str:
    if not (MODULES / "@modelcontextprotocol/ext-apps").is_dir():
        pytest.skip("run `make browser` once: it installs the official host")
    target = tmp_path_factory.mktemp("host") / "host.js"
    subprocess.run(
        [
            MODULES / ".bin/esbuild",
            Path(__file__).with_name("app_host.js"),
            "--bundle",
            "--format=iife",
            "--log-level=error",
            f"--outfile={target}",
        ],
        env={**os.environ, "NODE_PATH": str(MODULES)},
        check=True,
    )
    return target.read_text()


@pytest.fixture
def agent(transactional_db: None, owner: Any) -> Iterator[Callable[..., dict[str, Any]]]:
    """Calls a tool for olga as the host would, and returns the result as it is on the wire."""
    set_local_caller(local_caller(owner, name="chat"))
    client = InMemory("modern")
    # In a thread, because the browser's event loop runs in this one.
    with ThreadPoolExecutor(1) as threads:

        def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            result = threads.submit(client.raw, name, arguments).result()
            return {
                "content": [{"type": "text", "text": block.text} for block in result.content],
                "structuredContent": result.structured_content or {},
                "isError": bool(result.is_error),
            }

        yield call
    set_local_caller(None)


class Chat:
    """A chat that shows the page of a tool beside its answer."""

    def __init__(self, page: Page, agent: Callable[..., dict[str, Any]]) -> None:
        self.page, self.agent = page, agent
        self.complaints: list[str] = []
        page.set_default_timeout(PATIENCE * 1000)
        page.on("console", lambda message: message.type == "error" and self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def say(self, tool: str, arguments: dict[str, Any], **context: Any) -> FrameLocator:
        result = self.agent(tool, arguments)
        known = {
            "theme": "light",
            "locale": "en-GB",
            "toolInfo": {"tool": {"name": tool, "inputSchema": {"type": "object"}}},
        }
        name = {AGENDA: "agenda", CARD: "card"}[PAGE_OF_TOOL[tool]]
        self.page.route(APP, lambda route: _serve(route, page(name), CLOSED))
        self.page.evaluate("([a, c, r]) => window.showApp(a, c, r)", [APP, known | context, result])
        return self.page.frame_locator("iframe")


def _serve(route: Route, body: str, policy: str) -> None:
    route.fulfill(body=body, content_type="text/html", headers={"Content-Security-Policy": policy})


@pytest.fixture
def chat(browser: Browser, host_script: str, agent: Callable[..., dict[str, Any]]) -> Iterator[Chat]:
    context = browser.new_context(viewport={"width": 480, "height": 800})
    opened = context.new_page()
    opened.route(
        HOST, lambda route: route.fulfill(body="<!DOCTYPE html><title>Chat</title>", content_type="text/html")
    )
    opened.goto(HOST)
    opened.expose_function("callTool", agent)
    opened.add_script_tag(content=host_script)
    yield Chat(opened, agent)
    context.close()


def test_agenda_shows_what_comes_and_its_buttons_act(chat, owner):
    job = JobFactory(owner=owner, name="Backup <b>nightly</b>", interval=True, every=timedelta(hours=1))

    shown = chat.say("upcoming", {})

    first = shown.locator("#runs li").first
    expect(first.locator(".name")).to_have_text("Backup <b>nightly</b>")
    first.get_by_role("button", name="Pause").press("Enter")
    undo = first.get_by_role("button", name="Undo pause")
    expect(undo).to_be_focused()
    assert Job.objects.get(pk=job.pk).status == "paused"
    undo.press("Enter")
    expect(first.get_by_role("button", name="Pause")).to_be_focused()
    assert Job.objects.get(pk=job.pk).status == "pending"
    Job.objects.filter(pk=job.pk).update(skips="2199-12-24")
    first.get_by_role("button", name="Skip").click()
    undo = first.get_by_role("button", name="Undo skip")
    expect(undo).to_be_focused()
    assert len(Job.objects.get(pk=job.pk).skips.split()) == 2
    undo.click()
    expect(first.get_by_role("button", name="Skip", exact=False)).to_be_focused()
    assert Job.objects.get(pk=job.pk).skips == "2199-12-24"
    first.get_by_role("button", name="Run").click()
    expect(first.get_by_role("button", name="Run")).to_contain_text("queued")
    assert job.executions.count() == 1
    assert chat.complaints == []


def test_card_of_a_new_job_says_when_it_runs_and_can_be_undone(chat, settings):
    asked = {
        "message": "Stretch",
        "notification_topic": "olga-phone",
        "cron": "30 8 * * 1-5",
        "timezone": "Europe/Berlin",
    }

    shown = chat.say("schedule_cron_notification", asked)

    expect(shown.locator("#runs li")).to_have_count(3)
    expect(shown.locator("#runs")).to_contain_text("08:30")
    expect(shown.locator("#zone")).to_have_text("Times in Europe/Berlin")
    shown.get_by_role("button", name="Edit").click()
    job = Job.objects.get()
    chat.page.wait_for_function("window.opened.length == 1")
    assert chat.page.evaluate("window.opened") == [f"{settings.CRONTY_URL}/jobs/{job.public_id}/"]
    shown.get_by_role("button", name="Undo").click()
    expect(shown.locator("#words")).to_have_text("Cancelled")
    job.refresh_from_db()
    assert job.status == "cancelled"
    shown.get_by_role("button", name="Restore").click()
    expect(shown.locator("#runs li")).to_have_count(3)
    job.refresh_from_db()
    assert job.status == "pending"
    assert chat.complaints == []


@full_matrix
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_follow_the_theme_fit_their_frame_and_are_accessible(chat, owner, axe, theme):
    JobFactory(owner=owner, name="Backup", cron="0 * * * *", trigger_type="cron")

    shown = chat.say("upcoming", {}, theme=theme)

    frame = chat.page.frames[1]
    paper = frame.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(23, 25, 28)"}[theme]
    assert frame.evaluate("document.documentElement.scrollWidth <= innerWidth")
    frame.evaluate(axe)
    found = frame.evaluate(
        "axe.run(document, {resultTypes: ['violations']}).then((all) => all.violations.map((each) => each.id))"
    )
    assert found == []
    expect(shown.locator("#runs li").first).to_be_visible()
    chat.page.wait_for_function("window.sizes.length > 0")


@pytest.mark.parametrize("name", ["agenda", "card"])
def test_page_is_one_small_document_without_outside_parts(name):
    text = page(name)

    assert len(text.encode()) < LARGEST
    for part in ("src=", "href=", "@import", "url("):
        assert part not in text
