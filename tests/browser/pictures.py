"""Script that takes the screenshots of the README: `python -m tests.browser.pictures`."""

import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.browser.site import CHROMIUM, FLAGS, ROOT, served

FOLDER = ROOT / "docs/images"
MOST_BYTES = 150_000


def fill_in(page: Page) -> None:
    page.locator("#id_name").fill("Morning briefing")
    page.locator("[id='id_notify-message']").fill("Good morning! Here is your briefing.")
    page.locator("[id='id_notify-topic']").fill("home-4711")
    page.locator("#id_phrase").fill("every weekday at 8:30")
    page.locator("#preview").get_by_text("08:30").first.wait_for()
    page.evaluate("scrollTo(0, 0)")


def shrink(picture: Path) -> None:
    """Reduce the colours to the few that a page of text needs."""
    subprocess.run(["convert", str(picture), "+dither", "-colors", "128", f"PNG8:{picture}"], check=True)


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    with served() as (address, session), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for name, path, width, height, scheme in (
            ("jobs-light", "/", 1280, 960, "light"),
            ("jobs-dark", "/", 1280, 960, "dark"),
            ("job", "/?q=scraper", 1280, 900, "light"),
            ("new", "/jobs/new/", 1280, 1240, "light"),
            ("phone", "/", 390, 844, "light"),
        ):
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme=scheme,  # type: ignore[arg-type]
                timezone_id="Europe/Berlin",
            )
            context.add_cookies([{"name": "sessionid", "value": session, "url": address}])
            page = context.new_page()
            page.goto(f"{address}{path}")
            if name == "job":
                page.click("a.name")
            if name == "new":
                fill_in(page)
            target = FOLDER / f"{name}.png"
            page.screenshot(path=target)
            shrink(target)
            size = target.stat().st_size
            sys.stdout.write(f"docs/images/{name}.png {size:,} bytes\n")
            assert size < MOST_BYTES
            context.close()
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
