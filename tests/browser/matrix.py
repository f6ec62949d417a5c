"""What the full matrix visits: pages, modes, and what can be opened or go wrong on a page."""

from dataclasses import dataclass, field
from typing import Any

from schedules.models import Execution, Job, Token


@dataclass(frozen=True)
class Mode:
    """How a person sees the pages."""

    width: int = 1280
    scheme: str = "light"
    forced_colors: str = "none"

    def options(self) -> dict[str, Any]:
        """Return the options of a browser context."""
        return {
            "viewport": {"width": self.width, "height": 900},
            "color_scheme": self.scheme,
            "forced_colors": self.forced_colors,
        }


MODES = {
    "light": Mode(),
    "dark": Mode(scheme="dark"),
    "laptop": Mode(width=1024),
    "phone": Mode(width=390),
    "forced colors": Mode(forced_colors="active"),
}
WIDTHS = (320, 360, 390, 480, 599, 600, 768, 900, 1024, 1149, 1150, 1280, 1440, 1920, 2560)


@dataclass(frozen=True)
class Mistake:
    """Input that a page refuses: what is typed where, and which button sends it."""

    path: str
    button: str
    typed: dict[str, str] = field(default_factory=dict)


MISTAKES = {
    "new job": Mistake("/jobs/new/", "Create job"),
    "new job, phrase": Mistake("/jobs/new/", "Create job", {"#id_phrase": "evry weekdy", "#id_name": "x"}),
    "settings": Mistake("/settings/", "Save", {"#id_timezone": "Berlni"}),
    "password": Mistake("/password/", "Change password"),
    "connect": Mistake("/connect/", "Create token"),
    "secrets": Mistake("/settings/secrets/", "Save"),
}


def all_pages(jobs: dict[str, Job]) -> dict[str, str]:
    """Return the path of every page that shows sample data, by name."""
    job = jobs["Price scraper"]
    failed = job.executions.filter(status="failed")[0]
    waiting = jobs["Morning briefing"].executions.get(status="waiting")
    return {
        "jobs": "/",
        "jobs, filtered": "/?status=failing&q=scraper",
        "jobs, none": "/?q=nothing-like-it",
        "job": f"/jobs/{job.public_id}/",
        "job, asked why": f"/jobs/{job.public_id}/?why=today+at+00:10",
        "paused job": f"/jobs/{jobs['Weekly report'].public_id}/",
        "new": "/jobs/new/",
        "pause everything": "/jobs/pause-all/",
        "copy": f"/jobs/new/?copy={jobs['Stretch'].public_id}",
        "edit": f"/jobs/{job.public_id}/edit/",
        "run": f"/runs/{failed.pk}/",
        "waiting run": f"/runs/{waiting.pk}/",
        "runs": "/runs/",
        "runs, bad since": "/runs/?since=gibberish",
        "calendar": "/calendar/",
        "week": "/calendar/?view=week",
        "day": "/calendar/?view=day",
        "inbox": "/inbox/",
        "notifications": "/notifications/",
        "connect": "/connect/",
        "secrets": "/settings/secrets/",
        "calendars": "/settings/calendars/",
        "channel": "/channels/new/?kind=matrix",
        "new webhook": "/channels/new/?kind=webhook",
        "activity": "/activity/",
        "activity, none": "/activity/?actor=nobody",
        "undo": "/activity/undo/",
        "undo, by whom": "/activity/undo/?actor=olga&since=30+days+ago",
        "reference": "/api/",
        "trash": "/trash/",
        "system": "/system/",
        "welcome": "/welcome/",
        "settings": "/settings/",
        "password": "/password/",
    }


def admin_pages(jobs: dict[str, Job]) -> dict[str, str]:
    """Return the path of every kind of admin page, by name."""
    job = jobs["Price scraper"]
    lists = {
        f"{model.__name__} list": f"/admin/schedules/{model.__name__.lower()}/"
        for model in (Job, Execution, Token)
    }
    return lists | {
        "admin": "/admin/",
        "add a job": "/admin/schedules/job/add/",
        "change a job": f"/admin/schedules/job/{job.pk}/change/",
        "delete a job": f"/admin/schedules/job/{job.pk}/delete/",
        "history of a job": f"/admin/schedules/job/{job.pk}/history/",
        "execution": f"/admin/schedules/execution/{job.executions.all()[0].pk}/change/",
        "add a token": "/admin/schedules/token/add/",
        "users": "/admin/auth/user/",
        "user": f"/admin/auth/user/{job.owner_id}/change/",
        "groups": "/admin/auth/group/",
    }
