"""The flows around a person's account, and those that only read: settings, tokens, secrets, runs and the calendar."""

from collections.abc import Callable

from schedules.models import Profile, Secret, Token, UserSession
from tests.browser.flow_data import PASSWORD, Data, Flow
from tests.browser.job_flows import skip_next
from tests.browser.people import choose, fill, follow, press, unfold
from tests.factories import ExecutionFactory

NEW_PASSWORD = "battery staple 42"


def add_runs(data: Data) -> None:
    ExecutionFactory.create_batch(51, job=data.stretch)


def profile(data: Data) -> Profile:
    return Profile.objects.get(user=data.owner)


def tokens_called(name: str) -> Callable[[Data], int]:
    return lambda data: Token.objects.filter(owner=data.owner, name=name, revoked_at=None).count()


def has_password(text: str) -> Callable[[Data], bool]:
    def check(data: Data) -> bool:
        data.owner.refresh_from_db()
        return data.owner.check_password(text)

    return check


def has_logged_in(data: Data) -> bool:
    data.owner.refresh_from_db()
    return data.owner.last_login is not None


def sessions(data: Data) -> int:
    return UserSession.objects.filter(user_key=str(data.owner.pk)).count()


ACCOUNT = {
    "log in": Flow(
        start="/login/",
        steps=(fill("Email or username", "olga"), fill("Password", PASSWORD)),
        send=press("Log in"),
        seen="Next 24 hours",
        stored=has_logged_in,
        becomes=True,
        stale="Next 24 hours",
        person="nobody",
        leave_out={"lost session": "there is no session yet that could be lost"},
    ),
    "log out": Flow(
        start="/",
        steps=(unfold("Account menu", "header"),),
        send=press("Log out"),
        seen="Email or username",
        stored=sessions,
        becomes=0,
        stale="Email or username",
        leave_out={
            "lost session": "who is logged out already has nothing to log out of: two tabs prove that"
        },
    ),
    "change the password": Flow(
        start="/password/",
        steps=(
            fill("Old password", PASSWORD),
            fill("New password", NEW_PASSWORD),
            fill("New password confirmation", NEW_PASSWORD),
        ),
        send=press("Change password", "main"),
        seen="Password changed",
        stored=has_password(NEW_PASSWORD),
        becomes=True,
        stale="Your old password was entered incorrectly",
    ),
    "sign out everywhere": Flow(
        start="/settings/",
        steps=(),
        send=press("Sign out everywhere and revoke all tokens"),
        seen="Signed out everywhere; 1 token revoked",
        stored=tokens_called("laptop"),
        becomes=0,
        stale="You were logged out",
    ),
    "change the settings": Flow(
        start="/settings/",
        steps=(fill("Your topic", "my-topic", "other-topic"), choose("Week starts on", "Sunday")),
        send=press("Save"),
        seen="Saved",
        stored=lambda data: (profile(data).topic, profile(data).week_start),
        becomes=("my-topic", 6),
        stale="Saved",
        stays=("other-topic", 6),
    ),
    "create a token": Flow(
        start="/connect/",
        steps=(fill("Name", "desk"), choose("Access", "Read only")),
        send=press("Create token"),
        seen="Copy it now",
        stored=tokens_called("desk"),
        stale="You already have a token named",
    ),
    "rotate a token": Flow(
        start="/connect/",
        steps=(),
        send=press("Rotate laptop"),
        seen="Copy it now",
        stored=lambda data: Token.objects.filter(owner=data.owner, name="laptop").count(),
        becomes=2,
        stale="already revoked",
    ),
    "revoke a token": Flow(
        start="/connect/",
        steps=(),
        send=press("Revoke laptop"),
        seen='Token "laptop" revoked',
        stored=tokens_called("laptop"),
        becomes=0,
        stale="already revoked",
    ),
    "add a secret": Flow(
        start="/settings/secrets/",
        steps=(fill("Name", "API_KEY"), fill("Value", "hush-hush-1"), fill("Allowed hosts", "a.example")),
        send=press("Save"),
        seen="Saved API_KEY",
        stored=lambda data: Secret.objects.filter(owner=data.owner, name="API_KEY").count(),
        stale="Replaced API_KEY",
    ),
    "delete a secret": Flow(
        start="/settings/secrets/",
        steps=(),
        send=press("Delete"),
        seen="Deleted GITHUB_TOKEN",
        stored=lambda data: Secret.objects.filter(owner=data.owner).count(),
        becomes=0,
        stale="deleted already",
    ),
    "change the calendar link": Flow(
        start="/calendar/",
        steps=(),
        send=press("Change the link"),
        seen="Your calendar has a new link",
        stored=Data.new_links,
        stale="already",
    ),
}

READING = {
    "find what failed": Flow(
        start="/",
        steps=(follow("Needs attention 1"), follow("Backup", "tbody")),
        send=follow("", "tbody .r-time"),
        seen="503: Service Unavailable",
        finds="#error",
    ),
    "ask why a job ran": Flow(
        start="{job}/",
        steps=(follow("Why?"), fill("Date and time", "yesterday at 9:00")),
        send=press("Explain"),
        seen="Why did",
        finds="#why .answer",
    ),
    "watch a command": Flow(
        start="/runs/",
        steps=(),
        send=follow("", "tbody tr:has-text('Disk space') .r-plan"),
        seen="Half of the disk is full",
    ),
    "search": Flow(start="/", steps=(), send=fill("Search jobs", "stretch"), seen="All 1"),
    "filter runs": Flow(
        start="/runs/",
        steps=(fill("Search by job name or error", "503"),),
        send=press("Filter"),
        seen="503: Service Unavailable",
        finds="tbody tr:only-child",
    ),
    "page through the runs": Flow(
        start="/runs/",
        steps=(),
        send=follow("Older →", ".pager"),
        seen="← Newer",
        prepare=add_runs,
    ),
    "open a day of the calendar": Flow(
        start="/calendar/",
        steps=(follow("Day"),),
        send=follow("Next day"),
        seen="Stretch",
        finds=".hours a.event:has-text('Stretch')",
    ),
    "read the activity": Flow(
        start="/activity/",
        steps=(choose("Action", "Moved to the trash"),),
        send=press("Filter"),
        seen="No events found",
        prepare=skip_next,
    ),
    "look at the system": Flow(
        start="/",
        steps=(unfold("Account menu", "header"),),
        send=follow("System"),
        seen="tea-kettle",
    ),
    "switch the theme": Flow(
        start="/trash/",
        steps=(unfold("Theme", "header"),),
        send=press("Dark"),
        seen="Trash",
        finds="html[data-theme=dark]",
        leave_out={"lost session": "the theme needs no session", "two tabs": "the last choice is meant"},
    ),
}
