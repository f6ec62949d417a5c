"""MCP Apps: pages that a chat shows beside a tool's answer, which is complete without them.

Each page is one document without outside requests, so that a host can show it in a sandboxed frame.
"""

import json
from functools import cache
from importlib.resources import files

from django.conf import settings
from mcp.server.apps import Apps, ResourceCsp

AGENDA = "ui://agenda"
CARD = "ui://schedule"
PAGES = (AGENDA, CARD)
# The page for the answer of each of these tools.
PAGE_OF_TOOL = {
    "upcoming": AGENDA,
    **dict.fromkeys(
        (
            "schedule_job",
            "schedule_notification",
            "schedule_cron_notification",
            "update_job",
            "pause_job",
            "resume_job",
            "skip_runs",
            "restore_job",
        ),
        CARD,
    ),
}


def pages() -> Apps:
    """Return the extension that serves the pages."""
    apps = Apps()
    for uri, name, title, description in (
        (AGENDA, "agenda", "Agenda", "The next runs and what failed, with buttons."),
        (CARD, "card", "Schedule", "A schedule after a change, with its next runs and an undo."),
    ):
        apps.add_html_resource(
            uri,
            page(name),
            name=name,
            title=title,
            description=description,
            csp=ResourceCsp(),
            prefers_border=True,
        )
    return apps


@cache
def page(name: str) -> str:
    """Return a page with the shared style and script inside."""
    folder = files(__name__)
    text = folder.joinpath(f"{name}.html").read_text("utf-8")
    for placeholder, part in (("/*style*/", "style.css"), ("/*host*/", "host.js")):
        text = text.replace(placeholder, folder.joinpath(part).read_text("utf-8"))
    return text.replace("{site}", json.dumps(settings.CRONTY_URL))
