"""Everything that the growth benchmark asks: each page, admin list and tool, for three people."""

from collections.abc import Callable
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client

from schedules import clock, engine, services
from schedules.mcp.auth import local_caller, set_local_caller
from schedules.mcp.tools import history, jobs, manage, notifications, prompts, reading
from schedules.models import Cluster, Event
from schedules.services import Actor
from verification.bench.growth_rows import Filling

PAGES = (
    "/",
    "/?status=late",
    "/?status=failing",
    "/?status=running",
    "/?status=stopped_failing",
    "/?status=retrying",
    "/?status=waiting",
    "/?status=paused",
    "/?status=healthy",
    "/?status=new",
    "/?status=completed",
    "/?status=failed",
    "/?sort=name",
    "/?sort=-last",
    "/?q=backup",
    "/?q=nothing+like+this",
    "/?q=grown_500",
    "/?task=notify",
    "/?task=none",
    "/?tag=home",
    "/?tag=none",
    "/?made_by=laptop",
    "/live/",
    "/runs/",
    "/runs/?status=failed",
    "/runs/?status=lost",
    "/runs/?status=waiting",
    "/runs/?cause=catch_up",
    "/runs/?q=nothing+like+this",
    "/runs/?since=yesterday",
    "/runs/?job=grown_500",
    "/activity/",
    "/activity/?actor=nobody",
    "/activity/?verb=delete",
    "/calendar/",
    "/calendar/?view=week",
    "/calendar/?view=day",
    "/inbox/",
    "/notifications/",
    "/connect/",
    "/trash/",
    "/system/",
    "/settings/",
    "/welcome/",
    "/jobs/new/",
    "/palette/?q=backup",
    "/palette/?q=run+nothing+like+this",
    "/readyz",
    "/metrics",
)
ADMIN = "/admin/schedules/"
ADMIN_PAGES = (
    "/admin/",
    f"{ADMIN}job/",
    f"{ADMIN}job/add/",
    f"{ADMIN}job/500/change/",
    f"{ADMIN}execution/",
    f"{ADMIN}execution/?q=grown_500",
    f"{ADMIN}execution/?p=10",
    f"{ADMIN}execution/500/change/",
    f"{ADMIN}token/",
    "/admin/auth/user/",
)
NEW_JOB = {
    "name": "Ping",
    "task": "webhook",
    "kwargs": {"url": "https://example.org"},
    "trigger_type": "cron",
    "trigger_config": {"expression": "31 8 * * 1-5"},
}


class Question(NamedTuple):
    """Something to measure: a name, who asks, and a function that answers."""

    name: str
    who: str
    ask: Callable[[], Any]


def questions(filling: Filling) -> list[Question]:
    Cluster.objects.update(last_seen_at=clock.now())
    people = {"all": filling.owner, "few": filling.few, "staff": filling.staff}
    found: list[Question] = []
    for who, user in people.items():
        found += page_questions(who, user)
        if who != "staff":
            found += tool_questions(who, user)
    found += admin_questions(filling)
    found.append(Question("prune_history", "staff", engine.prune_history))
    return found


def page_questions(who: str, user: User) -> list[Question]:
    client = Client(headers={"host": "127.0.0.1"})
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    own_job = "/jobs/grown_500/" if who == "few" else "/jobs/grown_501/"
    feed = f"/calendar/{services.profile_of(user).calendar_key}.ics"
    return [Question(page, who, visit(client, page)) for page in (*PAGES, own_job)] + [
        Question("/calendar/….ics", who, visit(client, feed))
    ]


def admin_questions(filling: Filling) -> list[Question]:
    client = Client(headers={"host": "127.0.0.1"})
    client.force_login(filling.staff, backend="django.contrib.auth.backends.ModelBackend")
    return [Question(page, "staff", visit(client, page.format(few=filling.few.pk))) for page in ADMIN_PAGES]


def tool_questions(who: str, user: User) -> list[Question]:
    job_id = "grown_500" if who == "few" else "grown_501"
    actor = Actor(user, Event.Door.MCP, name="laptop")
    calls: dict[str, Callable[[], Any]] = {
        "list_jobs()": lambda: jobs.list_jobs(),
        **{
            f"list_jobs({status})": listing(status)
            for status in ("pending", "running", "completed", "paused")
        },
        **{
            f"list_jobs({name}={value})": searching(**{name: value})
            for name, value in (
                ("query", "backup"),
                ("query", "nothing like this"),
                ("tag", "none"),
                ("task", "notify"),
                ("outcome", "failed"),
                ("outcome", "missed"),
            )
        },
        "list_jobs(failed this week)": searching(outcome="failed", since="7 days ago"),
        "job_status": lambda: jobs.job_status(job_id),
        "why": lambda: history.why(job_id),
        "upcoming": lambda: reading.upcoming(),
        "schedule_list()": lambda: prompts.schedule_list(),
        "schedule_list(running)": lambda: prompts.schedule_list("running"),
        "schedule_list(completed)": lambda: prompts.schedule_list("completed"),
        "claim_prompts": undone(lambda: prompts.claim_prompts()),
        "list_scheduled_notifications": lambda: notifications.list_scheduled_notifications(),
        "list_scheduled_notifications(topic)": lambda: notifications.list_scheduled_notifications("none"),
        "schedule_job": undone(lambda: jobs.schedule_job(**NEW_JOB)),
        "schedule": undone(lambda: prompts.schedule("tomorrow at 9am", "Check the build.")),
        "update_job": undone(lambda: manage.update_job(job_id, name="Other")),
        "pause_job": undone(lambda: manage.pause_job(job_id)),
        "run_job": undone(lambda: services.run_now(actor, job_id)),
        "cancel_job": undone(lambda: jobs.cancel_job(job_id)),
    }
    return [Question(name, who, as_caller(user, call)) for name, call in calls.items()]


def listing(status: str) -> Callable[[], Any]:
    return lambda: jobs.list_jobs(status=status)


def searching(**filters: str) -> Callable[[], Any]:
    return lambda: jobs.list_jobs(**filters)


def visit(client: Client, address: str) -> Callable[[], Any]:
    def ask() -> None:
        answer = client.get(address)
        if answer.streaming:
            list(answer.streaming_content)
        assert answer.status_code in (200, 302, 503), (address, answer.status_code)

    return ask


def as_caller(user: User, call: Callable[[], Any]) -> Callable[[], Any]:
    def ask() -> Any:
        set_local_caller(local_caller(user, name="laptop"))
        return call()

    return ask


def undone(call: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function that makes a change and rolls it back."""

    def ask() -> None:
        with transaction.atomic():
            call()
            transaction.set_rollback(True)

    return ask
