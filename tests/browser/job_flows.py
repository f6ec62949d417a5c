"""The flows around jobs: each kind is created, changed, run, stopped, deleted and brought back."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from schedules import clock, services
from schedules.models import Execution, Job
from tests.browser.flow_data import Data, Flow
from tests.browser.people import Step, fill, follow, pick, press, switch, tick, unfold


def runs_of(name: str) -> Callable[[Data], int]:
    return lambda data: Execution.objects.filter(job=data.job(name), cause="manual").count()


def status_of(name: str) -> Callable[[Data], str]:
    return lambda data: data.job(name).status


def skip_next(data: Data) -> None:
    services.skip(services.Actor(data.owner), data.stretch.public_id)


def lease_prompt(data: Data) -> None:
    lease = {"leased_to": "laptop", "lease_until": clock.now() + timedelta(hours=1)}
    Execution.objects.filter(job=data.briefing).update(**lease)


def new_job(name: str, *steps: Step, send: str = "Create job", seen: str = "", **options: Any) -> Flow:
    """Return the flow that creates a job of one kind; a second tab creates another one, and the page says so."""
    return Flow(
        start="/jobs/new/",
        steps=(fill("Name", name), *steps),
        send=press(send),
        seen=seen or f'Created "{name}"',
        stored=lambda data: data.jobs_called(name),
        stale=options.pop("stale", f"{name} does the same on the same schedule"),
        stays=2,
        keeps=True,
        **options,
    )


DAILY = fill("Schedule", "every day at 17:00")

CREATING = {
    "create a notification": new_job("Tea", DAILY, fill("Message", "Ready."), fill("Topic", "home-4711")),
    "create a webhook": new_job("Hook", DAILY, pick("Webhook"), fill("URL", "https://example.com/x")),
    "create once, paused": new_job(
        "Party", pick("Once"), fill("Date and time", "2030-12-24T18:00"), fill("Message", "Now."),
        fill("Topic", "home-4711"), send="Create paused", seen='Created "Party". It is paused.',
    ),
    "save and test": new_job(
        "Trial", DAILY, fill("Message", "Now."), fill("Topic", "home-4711"), send="Save and test",
        seen="test run started", stale="test run started",
    ),
    "duplicate a job": Flow(
        start="{job}/",
        steps=(unfold("More"), follow("Duplicate"), fill("Name", "Stretch again", "Stretch once more")),
        send=press("Create job"),
        seen='Created "Stretch again"',
        stored=lambda data: Job.objects.filter(owner=data.owner, name__startswith="Stretch").count(),
        becomes=2,
        stale="does the same on the same schedule",
        stays=3,
    ),
    "send a first reminder": Flow(
        start="/welcome/",
        steps=(fill("Topic", "my-phone-1"), fill("Message", "Hello")),
        send=press("Remind me in 20 seconds"),
        seen="Your reminder goes out",
        stored=lambda data: data.jobs_called("My first reminder"),
        stale="Your reminder goes out",
        stays=2,
    ),
}  # fmt: skip

CHANGING = {
    "edit a job": Flow(
        start="{job}/",
        steps=(follow("Edit"), fill("Name", "Stretch more", "Stretch less")),
        keeps=True,
        send=press("Save"),
        seen="Stretch more saved",
        stored=lambda data: list(Job.objects.filter(pk=data.stretch.pk).values_list("name", flat=True)),
        becomes=["Stretch more"],
        stale="This job was changed by",
        resolve=(press("Keep mine"),),
        resolved=["Stretch less"],
    ),
    "pause with a reason": Flow(
        start="{job}/",
        steps=(unfold("Pause"), fill("Reason", "Holiday", "Vacation"), fill("Until", "in 3 days")),
        send=press("Pause", "details.pop"),
        seen="Holiday",
        stored=lambda data: data.job().pause_reason,
        becomes="Holiday",
        stale="This job is paused already",
    ),
    "pause in the list": Flow(
        start="/",
        steps=(),
        send=switch("Stretch enabled"),
        seen="Stretch paused",
        stored=status_of("Stretch"),
        becomes="paused",
        stale="This job is paused already",
    ),
    "resume": Flow(
        start="{paused}/",
        steps=(),
        send=press("Resume"),
        seen="Report resumed",
        stored=status_of("Report"),
        becomes="pending",
        stale="This job isn't paused|active already",
    ),
    "skip the next run": Flow(
        start="{job}/",
        steps=(unfold("More"),),
        send=press("Skip next run"),
        seen="will be skipped",
        stored=lambda data: len(data.job().skips.split()),
        stale="will be skipped",
    ),
    "undo a skip": Flow(
        start="{job}/",
        steps=(),
        send=press("", ".ahead-list .off"),
        seen="will happen after all",
        stored=lambda data: data.job().skips,
        becomes="",
        stale="will happen after all",
        prepare=skip_next,
    ),
    "run now": Flow(
        start="{job}/",
        steps=(),
        send=press("Run now"),
        seen="Stretch started|Queued",
        stored=runs_of("Stretch"),
        stale="Stretch started|Queued",
        stays=2,
    ),
    "stop a command": Flow(
        start="{running}/",
        steps=(),
        send=press("Stop"),
        seen="Stopping the command",
        stored=lambda data: data.events("stop"),
        stale="This run has already ended",
    ),
    "stop a job permanently": Flow(
        start="{job}/",
        steps=(unfold("More"),),
        send=press("Stop permanently…"),
        seen="Stretch was stopped permanently",
        stored=status_of("Stretch"),
        becomes="cancelled",
        stale="This job was stopped permanently",
    ),
    "delete a job": Flow(
        start="{job}/",
        steps=(unfold("More"),),
        send=press("Move to trash"),
        seen="Stretch moved to the trash",
        stored=lambda data: data.events("delete"),
        stale="Stretch is in the trash",
    ),
    "restore from the trash": Flow(
        start="/trash/",
        steps=(),
        send=press("Restore Old newsletter"),
        seen="Old newsletter restored",
        stored=lambda data: data.jobs_called("Old newsletter"),
        stale="This job is active already",
    ),
    "pause several jobs": Flow(
        start="/",
        steps=(tick("Select Stretch"), tick("Select Backup")),
        send=press("Pause", ".bulk"),
        seen="2 jobs paused",
        stored=lambda data: {data.job("Stretch").status, data.job("Backup").status},
        becomes={"paused"},
        stale="paused already",
    ),
    "answer a prompt": Flow(
        start="/inbox/",
        steps=(fill("Answer it yourself", "All is well.", "Nothing new."),),
        send=press("Send answer"),
        seen="Briefing answered",
        stored=lambda data: Execution.objects.get(job=data.briefing).result,
        becomes="All is well.",
        stale="(?=.*already answered).*answer wasn’t sent.*Nothing new",
    ),
    "dismiss a prompt": Flow(
        start="/inbox/",
        steps=(),
        send=press("Dismiss"),
        seen="Briefing dismissed",
        stored=lambda data: Execution.objects.get(job=data.briefing).status,
        becomes="cancelled",
        stale="already",
    ),
    "release a prompt": Flow(
        start="/inbox/",
        steps=(),
        send=press("Release"),
        seen="Briefing is available to agents again",
        stored=lambda data: Execution.objects.get(job=data.briefing).lease_until,
        becomes=None,
        stale="No agent holds this prompt",
        prepare=lease_prompt,
    ),
    "rotate a signing key": Flow(
        start="{hook}/",
        steps=(unfold("Signing key"),),
        send=press("Rotate key"),
        seen="Backup has a new signing key",
        stored=lambda data: data.job("Backup").signing_version,
        becomes=2,
        stale="already",
    ),
}
