"""A real browser for the pages; its tests are skipped if Chromium is not installed."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from schedules.models import Job
from tests.browser.matrix import MODES
from tests.browser.sample import fill
from tests.browser.site import CHROMIUM, FLAGS, ROOT
from tests.waiting import PATIENCE

IS_FULL = os.environ.get("BROWSER_TESTS") == "full"

expect.set_options(timeout=PATIENCE * 1000)

full_matrix = pytest.mark.skipif(not IS_FULL, reason="the full matrix: make browser")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: drives a real browser")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)
            # Run all browser tests in one worker: parallel browsers on two cores only slow each other down.
            item.add_marker(pytest.mark.xdist_group("browser"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for one test file: its event loop must end before other tests start their own."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: apt-get install -y chromium")
    # Playwright runs an event loop in this thread, so Django would refuse database access as async-unsafe.
    before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()
    if before is None:
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, from a local npm installation."""
    for folder in (ROOT / ".cache" / "node_modules", ROOT / "node_modules"):
        script = folder / "axe-core" / "axe.min.js"
        if script.is_file():
            return script.read_text(encoding="utf-8")
    pytest.skip("axe-core is not installed: npm install --prefix .cache axe-core")


@pytest.fixture
def jobs(browser: Browser, transactional_db: None, owner: User) -> dict[str, Job]:
    """The sample jobs of the owner, by name."""
    return {job.name: job for job in fill(owner)}


class Visitor:
    """A logged-in person with a browser page; records console warnings and script errors."""

    def __init__(self, context: BrowserContext, base: str) -> None:
        self.base = base
        self.complaints: list[str] = []
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE * 1000)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"script: {error}"))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(f"{message.type}: {message.text}")

    def open(self, path: str) -> Page:
        self.page.goto(f"{self.base}{path}")
        return self.page


@pytest.fixture
def visit(browser: Browser, live_server: Any, owner: User) -> Iterator[Callable[..., Visitor]]:
    contexts: list[BrowserContext] = []

    def log_in(mode: str = "light", *, user: User | None = None, **options: Any) -> Visitor:
        context = browser.new_context(timezone_id="Europe/Berlin", **(MODES[mode].options() | options))
        contexts.append(context)
        client = Client()
        client.force_login(user or owner, backend="django.contrib.auth.backends.ModelBackend")
        context.add_cookies(
            [{"name": "sessionid", "value": client.cookies["sessionid"].value, "url": live_server.url}]
        )
        return Visitor(context, live_server.url)

    yield log_in
    for context in contexts:
        context.close()
