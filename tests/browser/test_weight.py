"""Bytes and requests of every page, measured on the real server without a cache."""

from typing import Any

from playwright.sync_api import Browser

from tests.browser.conftest import full_matrix
from tests.browser.site import first_job, served

MOST_BYTES, MOST_REQUESTS = 42_000, 8
PATHS = [
    "/",
    "/jobs/new/",
    "/runs/",
    "/calendar/",
    "/inbox/",
    "/notifications/",
    "/connect/",
    "/activity/",
    "/trash/",
]
PATHS += ["/system/", "/welcome/", "/settings/", "/settings/secrets/", "/password/"]


def weigh(browser: Browser, address: str, session: str, path: str) -> tuple[int, int]:
    """Open a page without a cache, and count its bytes on the wire and its requests."""
    context = browser.new_context()
    context.add_cookies([{"name": "sessionid", "value": session, "url": address}])
    page = context.new_page()
    wire = context.new_cdp_session(page)
    wire.send("Network.enable")
    wire.send("Network.setCacheDisabled", {"cacheDisabled": True})
    sizes: list[float] = []

    def count(event: dict[str, Any]) -> None:
        sizes.append(event["encodedDataLength"])

    wire.on("Network.loadingFinished", count)
    page.goto(f"{address}{path}", wait_until="networkidle")
    context.close()
    return int(sum(sizes)), len(sizes)


@full_matrix
def test_every_page_is_within_its_size_budget(browser: Browser, record_property: Any):
    weights = {}

    with served() as (address, session):
        job = first_job(address, session)
        for path in [*PATHS, job, f"{job}edit/"]:
            weights[path] = weigh(browser, address, session, path)

    record_property("weights", weights)
    assert {
        path: weight
        for path, weight in weights.items()
        if weight[0] > MOST_BYTES or weight[1] > MOST_REQUESTS
    } == {}
