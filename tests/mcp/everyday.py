"""Everyday tasks for an agent: what a person says, the calls that solve it, and what must be true afterwards.

It is Wednesday, 4 February 2026, 12:00 in Berlin, where the person lives; their topic is `my-phone`. Text like
{made.job_id} stands for what the call named `made` has answered.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Contains:
    """A text or list that contains this."""

    part: Any


@dataclass(frozen=True)
class Call:
    """A call of a tool, whose answer is kept under a name."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    name: str = "said"


@dataclass(frozen=True)
class Task:
    """What a person says, the calls that solve it, and the values at paths of their answers."""

    says: str
    calls: tuple[Call, ...]
    truths: dict[str, Any]
    given: str = ""
    """The jobs that exist before, by a name in the tests."""


def task(says: str, *calls: Call, given: str = "", **truths: Any) -> Task:
    """Return a task; `made__next_runs__0` is the path made.next_runs.0."""
    return Task(says, calls, {path.replace("__", "."): value for path, value in truths.items()}, given)


def cron(expression: str, **more: Any) -> dict[str, Any]:
    return {"trigger_type": "cron", "trigger_config": {"expression": expression}, **more}


def every(**config: Any) -> dict[str, Any]:
    return {"trigger_type": "interval", "trigger_config": config}


def note(message: str, **more: Any) -> dict[str, Any]:
    """Return the arguments of a job that sends a notification."""
    return {"name": message, "task": "notify", "kwargs": {"message": message, "topic": "my-phone"}, **more}


BACKUP = {"name": "Backup", "task": "webhook", "kwargs": {"url": "https://example.org/backup"}}
DAILY = Call("schedule_job", BACKUP | cron("0 9 * * *"), "made")
JOB = {"job_id": "{made.job_id}"}
TEA = Call(
    "schedule_cron_notification",
    {"message": "Drink tea", "cron": "0 16 * * *", "timezone": "Europe/Berlin"},
    "made",
)

TASKS = (
    # Reminders, once.
    task(
        "Remind me tomorrow at 9 to call Anna.",
        Call("schedule_notification", {"message": "Call Anna", "datetime": "tomorrow at 9"}),
        said__scheduled_time="2026-02-05T09:00:00+01:00",
        said__notification_topic="my-phone",
    ),
    task(
        "Remind me in 20 minutes to take out the cake.",
        Call("schedule_notification", {"message": "Cake", "delay": "20m"}),
        said__scheduled_time="2026-02-04T12:20:00+01:00",
    ),
    task(
        "Remind me tomorrow at 3 pm New York time to call Bob.",
        Call(
            "schedule_notification",
            {"message": "Call Bob", "datetime": "2026-02-05T15:00", "timezone": "New York"},
        ),
        said__scheduled_time="2026-02-05T15:00:00-05:00",
    ),
    task(
        "Tonight at 8, tell the family topic that dinner is ready, urgently.",
        Call(
            "schedule_notification",
            {
                "message": "Dinner is ready",
                "notification_topic": "family",
                "datetime": "today at 8pm",
                "priority": 5,
            },
        ),
        said__scheduled_time="2026-02-04T20:00:00+01:00",
        said__notification_topic="family",
    ),
    task(
        "Remind me on Friday at 18:00; if you are offline then, don't send it late.",
        Call(
            "schedule_notification",
            {"message": "Bins", "datetime": "friday 18:00", "catch_up": "none"},
            "made",
        ),
        Call("job_status", {"job_id": "{made.message_id}"}),
        said__catch_up="none",
        said__next_run="2026-02-06T18:00:00+01:00",
    ),
    # Reminders that repeat.
    task(
        "Remind me of the stand-up every weekday at 8:30.",
        Call(
            "schedule_cron_notification",
            {"message": "Stand-up", "cron": "30 8 * * 1-5", "timezone": "Europe/Berlin"},
        ),
        said__next_runs__0="2026-02-05T08:30:00+01:00",
        said__next_runs__2="2026-02-09T08:30:00+01:00",
    ),
    task(
        "Every second Tuesday at 9, remind me of the bins, starting next week.",
        Call("schedule_job", note("Bins", **every(weeks=2, start="2026-02-10T09:00"))),
        said__next_runs__0="2026-02-10T09:00:00+01:00",
        said__next_runs__1="2026-02-24T09:00:00+01:00",
    ),
    task(
        "Every two weeks from 3 March at 9, summer time or not.",
        Call("schedule_job", note("Review", **every(weeks=2, start="2026-03-03T09:00"))),
        said__next_runs__2="2026-03-31T09:00:00+02:00",
    ),
    task(
        "Every 90 minutes, remind me to drink water.",
        Call("schedule_job", note("Water", **every(minutes=90))),
        said__next_runs__0="2026-02-04T13:30:00+01:00",
        said__next_runs__1="2026-02-04T15:00:00+01:00",
    ),
    task(
        "Remind me on the first Monday of every month at 9.",
        Call("schedule_job", note("Rent", **cron("0 9 * * MON#1"))),
        said__next_runs__0="2026-03-02T09:00:00+01:00",
    ),
    task(
        "Remind me on the last day of every month at 18:00.",
        Call("schedule_job", note("Invoices", **cron("0 18 L * *"))),
        said__next_runs__0="2026-02-28T18:00:00+01:00",
    ),
    task(
        "Remind me on the 31st of every month, or the last day if it is shorter.",
        Call("schedule_job", note("Meter", **every(months=1, start="2026-03-31T09:00"))),
        said__next_runs__1="2026-04-30T09:00:00+02:00",
    ),
    task(
        "Remind me of my birthday on 5 May at 10, every year.",
        Call("schedule_job", note("Birthday", **cron("0 10 5 5 *"))),
        said__next_runs__0="2026-05-05T10:00:00+02:00",
    ),
    task(
        "On the first day of every quarter at 9.",
        Call("schedule_job", note("Taxes", **cron("0 9 1 1,4,7,10 *"))),
        said__next_runs__0="2026-04-01T09:00:00+02:00",
    ),
    task(
        "Every hour from 9 to 17 on weekdays.",
        Call("schedule_job", note("Stretch", **cron("0 9-17 * * 1-5"))),
        said__next_runs__0="2026-02-04T13:00:00+01:00",
    ),
    task(
        "Every day at 7 until Christmas.",
        Call("schedule_job", note("Advent", **cron("0 7 * * *"), ends_at="2026-12-24"), "made"),
        Call("job_status", JOB),
        said__ends_at=Contains("2026-12-24T23:59:59"),
    ),
    task(
        "Remind me daily at 7, but only five times.",
        Call("schedule_job", note("Pills", **cron("0 7 * * *"), max_runs=5), "made"),
        Call("job_status", JOB),
        said__max_runs=5,
        said__next_runs__4="2026-02-09T07:00:00+01:00",
    ),
    task(
        "Every 90 minutes, as a cron expression.",
        Call("schedule_job", note("Water", **cron("*/90 * * * *"))),
        said__hint=Contains('interval with {"minutes": 90}'),
    ),
    # Webhooks and policies.
    task(
        "Call my backup every night at 2; try three times, ten minutes apart.",
        Call("schedule_job", BACKUP | cron("0 2 * * *", attempts=3, backoff="10m"), "made"),
        Call("job_status", JOB),
        said__attempts=3,
        said__backoff="10m",
    ),
    task(
        "Call my backup every night at 2; try three times, exactly ten minutes apart.",
        Call("schedule_job", BACKUP | cron("0 2 * * *", attempts=3, backoff="10m"), "doubling"),
        Call("update_job", {"job_id": "{doubling.job_id}", "fixed_backoff": True}),
        Call("job_status", {"job_id": "{doubling.job_id}"}, "shown"),
        doubling__backoff="10m, doubling each time",
        said__changed="Same wait before each retry no → yes",
        shown__fixed_backoff=True,
    ),
    task(
        "Tell me on my phone if the backup fails, and only that one.",
        DAILY,
        Call("update_job", JOB | {"alerts": "my-phone"}, "told"),
        Call("update_job", JOB | {"alerts": "never"}, "silent"),
        Call("update_job", JOB | {"alerts": "default"}, "back"),
        told__changed="Alerts none → my-phone",
        silent__changed="Alerts my-phone → never",
        back__changed="Alerts never → none",
    ),
    task(
        "Never start the backup while the last one is going, and stop it after 30 seconds.",
        Call("schedule_job", BACKUP | cron("0 2 * * *", overlap="skip", timeout="30s"), "made"),
        Call("job_status", JOB),
        said__overlap="skip",
        said__timeout="30s",
    ),
    task(
        "Let the existing backup try four times.",
        DAILY,
        Call("update_job", JOB | {"attempts": 4}),
        Call("job_status", JOB),
        said__attempts=4,
        said__kwargs__url="https://example.org/backup",
    ),
    task(
        "Call the backup every night, and tag it home.",
        Call("schedule_job", BACKUP | cron("0 2 * * *", tags=["home"])),
        Call("schedule_notification", {"message": "Lights", "delay": "1h", "tags": ["home"]}),
        Call("list_jobs", {"tag": "Home"}),
        said__total=2,
    ),
    task(
        "Make the same tea reminder for my partner, whose topic is pocket.",
        TEA,
        Call("job_status", {"job_id": "Drink tea"}, "shown"),
        Call(
            "schedule_job",
            {
                "name": "Tea for two",
                "task": "notify",
                "kwargs": {"message": "{shown.kwargs.message}", "topic": "pocket"},
                "trigger_type": "{shown.trigger_type}",
                "trigger_config": "{shown.trigger_config}",
                "timezone": "{shown.timezone}",
            },
        ),
        said__next_runs__0="2026-02-04T16:00:00+01:00",
        said__description="Every day at 16:00",
    ),
    task(
        "Ping https://hc-ping.com/my-check every 5 minutes.",
        Call(
            "schedule_job",
            {
                "name": "Ping",
                "task": "webhook",
                "kwargs": {"url": "https://hc-ping.com/my-check"},
                **every(minutes=5),
            },
            "made",
        ),
        Call("update_job", JOB | {"kwargs": {"method": "GET"}}, "cured"),
        made__method="POST",
        made__warning=Contains('{"method": "GET"}'),
        cured__changed="Method none → GET",
    ),
    task(
        "Ping https://example.org/health every 5 minutes, by GET, ten times at most.",
        Call(
            "schedule_job",
            {
                "name": "Ping",
                "task": "webhook",
                "kwargs": {"url": "https://example.org/health", "method": "GET"},
                "max_runs": 10,
                "tags": ["nas"],
                **every(minutes=5),
            },
        ),
        said__method="GET",
        said__max_runs=10,
        said__tags=["nas"],
        said__description="Every 5 minutes, 10 times",
    ),
    # Changes.
    task(
        "Move the backup to half past seven.",
        DAILY,
        Call("update_job", JOB | {"trigger_config": {"expression": "30 7 * * *"}}),
        said__next_runs__0="2026-02-05T07:30:00+01:00",
    ),
    task(
        "Let the backup run at 9 in Tokyo instead.",
        DAILY,
        Call("update_job", JOB | {"timezone": "Tokyo"}),
        said__next_runs__0="2026-02-05T09:00:00+09:00",
    ),
    task(
        "Change the tea reminder to say coffee.",
        TEA,
        Call("update_job", {"job_id": "Drink tea", "kwargs": {"message": "Drink coffee"}}),
        Call("job_status", {"job_id": "{made.schedule_id}"}),
        said__name="Drink coffee",
        said__kwargs__topic="my-phone",
    ),
    task(
        "Change the tea reminder to say coffee. And now let the tea reminder come at five.",
        TEA,
        Call("update_job", {"job_id": "Drink tea", "kwargs": {"message": "Drink coffee"}}),
        Call("update_job", {"job_id": "Drink tea", "trigger_config": {"expression": "0 17 * * *"}}),
        said__name="Drink coffee",
        said__next_runs__0="2026-02-04T17:00:00+01:00",
    ),
    task(
        "Call the backup NAS from now on, and tag it home.",
        DAILY,
        Call("update_job", JOB | {"name": "NAS", "tags": ["home"]}),
        Call("list_jobs", {"tag": "home"}),
        said__jobs__0__name="NAS",
        said__total=1,
    ),
    task(
        "The backup may go on for ever: no end and no limit.",
        Call("schedule_job", BACKUP | cron("0 9 * * *", max_runs=3, ends_at="2026-03-01"), "made"),
        Call("update_job", JOB | {"max_runs": 0, "ends_at": "none"}),
        Call("job_status", JOB),
        said__max_runs=None,
        said__ends_at=None,
    ),
    task(
        "Skip tomorrow's backup.",
        DAILY,
        Call("skip_runs", JOB | {"dates": ["tomorrow"]}),
        said__next_runs__0="2026-02-06T09:00:00+01:00",
    ),
    task(
        "Skip the next one.",
        DAILY,
        Call("skip_runs", JOB),
        said__next_runs__0="2026-02-06T09:00:00+01:00",
    ),
    task(
        "Not on 24 December.",
        DAILY,
        Call("skip_runs", JOB | {"dates": ["24 december"]}),
        said__skips=["2026-12-24"],
    ),
    task(
        "I do want tomorrow's after all.",
        DAILY,
        Call("skip_runs", JOB | {"dates": ["tomorrow"]}),
        Call("skip_runs", JOB | {"dates": ["tomorrow"], "undo": True}),
        said__next_runs__0="2026-02-05T09:00:00+01:00",
        said__skips=[],
    ),
    task(
        "Skip the bins on 24 December. (They go out on Tuesdays.)",
        Call("schedule_job", note("Bins", **every(weeks=2, start="2026-02-10T09:00")), "made"),
        Call("skip_runs", JOB | {"dates": ["2026-12-24"]}),
        said__warning="No run falls on 2026-12-24; nearest: 15 Dec, 29 Dec.",
        said__skips=[],
        said__changed="",
    ),
    task(
        "Skip the bins on Monday and Tuesday. (They go out on Tuesdays.)",
        Call("schedule_job", note("Bins", **every(weeks=2, start="2026-02-10T09:00")), "made"),
        Call("skip_runs", JOB | {"dates": ["2026-02-09", "2026-02-10"]}),
        said__warning="No run falls on 2026-02-09; nearest: 10 Feb.",
        said__skips=["2026-02-10"],
    ),
    # Pauses and ends.
    task(
        "Pause the backup until Monday.",
        DAILY,
        Call("pause_job", JOB | {"until": "monday"}),
        said__paused_until="2026-02-09T00:00:00+01:00",
        said__next_runs__0="2026-02-09T09:00:00+01:00",
    ),
    task(
        "Pause it until 23 November; we are away.",
        DAILY,
        Call("pause_job", JOB | {"until": "2026-11-23", "reason": "Away"}),
        Call("job_status", JOB),
        said__paused_until="2026-11-23T00:00:00+01:00",
        said__pause_reason="Away",
    ),
    task(
        "Make that pause end on Friday instead.",
        DAILY,
        Call("pause_job", JOB | {"until": "monday"}),
        Call("pause_job", JOB | {"until": "friday"}),
        said__paused_until="2026-02-06T00:00:00+01:00",
    ),
    task(
        "Go on with the backup.",
        DAILY,
        Call("pause_job", JOB),
        Call("resume_job", JOB),
        said__status="pending",
        said__next_run="2026-02-05T09:00:00+01:00",
    ),
    task(
        "Stop the backup for good.",
        DAILY,
        Call("cancel_job", JOB, "ended"),
        Call("list_jobs", {"status": "cancelled"}),
        ended__cancelled=True,
        said__total=1,
    ),
    task(
        "Stop it for good. No, bring it back.",
        DAILY,
        Call("cancel_job", JOB),
        Call("restore_job", JOB),
        said__status="pending",
        said__next_run="2026-02-05T09:00:00+01:00",
    ),
    task(
        "Delete the tea reminder.",
        TEA,
        Call("delete_schedule", {"schedule_id": "Drink tea"}, "deleted"),
        Call("list_scheduled_notifications"),
        deleted__undo=Contains("restore_job"),
        said__count=0,
    ),
    task(
        "Delete the tea reminder. Undo that.",
        TEA,
        Call("delete_schedule", {"schedule_id": "{made.schedule_id}"}),
        Call("restore_job", {"job_id": "{made.schedule_id}"}),
        Call("list_scheduled_notifications"),
        said__count=1,
    ),
    # Many at once.
    task(
        "Pause everything tagged home until Monday.",
        Call("bulk_jobs", {"action": "pause", "tag": "home", "until": "monday"}, "asked"),
        Call(
            "bulk_jobs",
            {"action": "pause", "tag": "home", "until": "monday", "confirm": "{asked.confirm}"},
            "done",
        ),
        Call("list_jobs", {"status": "paused"}),
        given="a household",
        asked__would_change=2,
        done__changed=2,
        said__total=2,
    ),
    task(
        "Cancel everything about the garden.",
        Call("bulk_jobs", {"action": "cancel", "query": "garden"}, "asked"),
        Call("bulk_jobs", {"action": "cancel", "query": "garden", "confirm": "{asked.confirm}"}, "done"),
        Call("list_jobs", {"status": "pending"}),
        given="a household",
        done__changed=2,
        said__total=2,
    ),
    task(
        "Delete everything about the garden. Oh no, undo that!",
        Call("bulk_jobs", {"action": "delete", "query": "garden"}, "asked"),
        Call("bulk_jobs", {"action": "delete", "query": "garden", "confirm": "{asked.confirm}"}, "done"),
        Call("undo_change", {"change": "{done.undo}"}, "undone"),
        Call("list_jobs", {"query": "garden"}),
        given="a household",
        undone__undone=2,
        said__total=2,
    ),
    task(
        "Move the backup to seven. Undo that.",
        DAILY,
        Call("update_job", JOB | {"trigger_config": {"expression": "0 7 * * *"}}, "moved"),
        Call("undo_change"),
        Call("job_status", JOB, "after"),
        moved__changed="Every day at 09:00 → 07:00",
        said__undone=1,
        after__next_runs__0="2026-02-05T09:00:00+01:00",
    ),
    task(
        "Let it run at seven, and tag it home. Never mind the seven o'clock.",
        DAILY,
        Call("update_job", JOB | {"trigger_config": {"expression": "0 7 * * *"}}, "moved"),
        Call("update_job", JOB | {"tags": ["home"]}, "tagged"),
        Call("undo_change", {"change": "{moved.undo}"}),
        Call("job_status", JOB, "after"),
        tagged__changed="Tags none → home",
        after__next_runs__0="2026-02-05T09:00:00+01:00",
        after__tags=["home"],
    ),
    task(
        "Remind me of tea at four. No, forget it.",
        TEA,
        Call("undo_change", {"change": "{made.undo}"}),
        Call("list_scheduled_notifications", name="listed"),
        said__undone=1,
        listed__count=0,
    ),
    task(
        "Let the backup run at nine. (It does already.)",
        DAILY,
        Call("update_job", JOB | {"trigger_config": {"expression": "0 9 * * *"}}),
        said__changed="",
        said__note=Contains("Nothing was changed"),
    ),
    task(
        "Move all my 8:30 reminders to 9:00. No, leave them.",
        Call("schedule_job", note("Pills", **cron("30 8 * * *")), "first"),
        Call("schedule_job", note("Stand-up", **cron("30 8 * * 1-5")), "second"),
        Call("schedule_job", note("Lunch", **cron("0 12 * * *"))),
        Call("bulk_jobs", {"action": "update", "at_time": "8:30", "time": "9:00"}, "asked"),
        Call(
            "bulk_jobs",
            {"action": "update", "at_time": "8:30", "time": "9:00", "confirm": "{asked.confirm}"},
            "done",
        ),
        Call("job_status", {"job_id": "Pills"}, "moved"),
        Call("undo_change"),
        Call("job_status", {"job_id": "Pills"}, "back"),
        asked__would_change=2,
        asked__jobs__0__change="Every weekday at 08:30 → 09:00",
        asked__jobs__1__change="Every day at 08:30 → 09:00",
        done__changed=2,
        moved__next_runs__0="2026-02-05T09:00:00+01:00",
        back__next_runs__0="2026-02-05T08:30:00+01:00",
    ),
    task(
        "I am moving to Lisbon; my jobs come with me.",
        DAILY,
        Call(
            "schedule_job",
            note("Dentist", trigger_type="once", trigger_config={"run_at": "2026-03-02T09:00"}),
        ),
        Call("set_preferences", {"timezone": "Lisbon"}, "kept"),
        Call(
            "bulk_jobs",
            {"action": "update", "in_timezone": "Europe/Berlin", "timezone": "Lisbon"},
            "asked",
        ),
        Call(
            "bulk_jobs",
            {
                "action": "update",
                "in_timezone": "Europe/Berlin",
                "timezone": "Lisbon",
                "confirm": "{asked.confirm}",
            },
        ),
        Call("job_status", JOB, "backup"),
        Call("job_status", {"job_id": "Dentist"}, "dentist"),
        kept__note=Contains("2 jobs stay in Europe/Berlin"),
        said__changed=2,
        backup__next_runs__0="2026-02-05T09:00:00+00:00",
        dentist__next_run="2026-03-02T09:00:00+00:00",
    ),
    task(
        "I am moving to Lisbon on 1 December; my jobs come with me then.",
        DAILY,
        Call("bulk_jobs", {"action": "update", "timezone": "Lisbon", "starting": "2026-12-01"}, "asked"),
        Call(
            "bulk_jobs",
            {
                "action": "update",
                "timezone": "Lisbon",
                "starting": "2026-12-01",
                "confirm": "{asked.confirm}",
            },
        ),
        Call("job_status", JOB, "backup"),
        asked__would_change=1,
        said__starting="2026-12-01T00:00:00+01:00",
        said__note=Contains("Nothing has changed yet"),
        backup__timezone="Europe/Berlin",
    ),
    # Questions.
    task("How many jobs do I have?", Call("list_jobs"), given="a household", said__total=4),
    task(
        "Show them two at a time, and then the next two.",
        Call("list_jobs", {"limit": 2}, "first"),
        Call("list_jobs", {"limit": 2, "offset": "{first.next_offset}"}),
        given="a household",
        first__next_offset=2,
        said__total=4,
    ),
    task(
        "What failed this week?",
        Call("list_jobs", {"outcome": "failed", "since": "7 days ago"}),
        given="a bad week",
        said__total=1,
        said__jobs__0__name="Backup",
        said__jobs__0__matching_runs=2,
        said__jobs__0__error="disk full",
    ),
    task(
        "What is failing right now?",
        Call("list_jobs", {"outcome": "failed"}),
        given="a bad week",
        said__total=0,
    ),
    task(
        "Show me everything about the backup.",
        Call("list_jobs", {"query": "backup"}),
        given="a bad week",
        said__total=2,
    ),
    task(
        "Which reminders do I have?",
        Call("list_jobs", {"task": "notify"}),
        given="a bad week",
        said__total=1,
    ),
    task(
        "Did the backup run?",
        Call("job_status", {"job_id": "Backup"}),
        given="a bad week",
        said__executions__0__status="succeeded",
        said__executions__1__error="disk full",
    ),
    task(
        "Why did the backup not run on Monday at 9?",
        Call("why", {"job_id": "Backup", "at": "monday 9:00"}),
        given="a bad week",
        said__verdict="failed",
        said__detail=Contains("disk full"),
    ),
    task(
        "What is on until tomorrow noon?",
        Call("upcoming", {"hours": 24}),
        given="a household",
        said__upcoming__0__at=Contains("2026-02-04T"),
    ),
    task(
        "What's on today and tomorrow morning?",
        Call("schedule_job", BACKUP | every(minutes=1)),
        Call("schedule_job", note("Water", **every(minutes=2))),
        Call("schedule_notification", {"message": "Dentist", "datetime": "tomorrow at 11"}),
        Call("upcoming", {"from": "today", "to": "tomorrow morning"}),
        said__count=1439 + 719 + 1,
        said__upcoming__0__runs=1439,
        said__upcoming__2__name="Dentist",
        said__upcoming__2__at="2026-02-05T11:00:00+01:00",
        said__until="2026-02-05T11:59:59+01:00",
    ),
    task(
        "Which reminders come next week?",
        TEA,
        DAILY,
        Call("upcoming", {"from": "next week", "task": "notify"}),
        said__upcoming__0__name="Drink tea",
        said__upcoming__0__runs=7,
        said__upcoming__0__last="2026-02-15T16:00:00+01:00",
        said__since="2026-02-09T00:00:00+01:00",
    ),
    task(
        "Yesterday's runs, please.",
        Call("list_runs", {"from": "yesterday"}),
        given="a bad week",
        said__totals={"failed": 1},
        said__runs__0__name="Backup",
        said__runs__0__error="disk full",
        said__since="2026-02-03T00:00:00+01:00",
        said__until="2026-02-03T23:59:59+01:00",
    ),
    task(
        "How many reminders did you send me last month?",
        Call("list_runs", {"from": "last month", "task": "notify", "outcome": "succeeded"}),
        given="a month of reminders",
        said__total=3,
        said__runs__0__name="Vitamins",
        said__runs__0__runs=2,
        said__alerts={"succeeded": 1},
    ),
    task(
        "How often did the backup fail since Monday?",
        Call("list_runs", {"from": "monday", "to": "now", "job_id": "backup", "outcome": "failed"}),
        given="a bad week",
        said__totals={"failed": 2},
        said__runs__0__at="2026-02-03T09:00:00+01:00",
    ),
    task(
        "What happened to anything with a full disk?",
        Call("list_runs", {"query": "disk full"}),
        given="a bad week",
        said__totals={"failed": 2},
        said__runs__0__runs=2,
    ),
    task(
        "What did you change this week? Undo the second-last one.",
        Call("schedule_job", BACKUP | cron("0 4 * * SUN", timeout="1m"), "made"),
        Call("update_job", JOB | {"trigger_config": {"expression": "0 3 * * SUN"}}),
        Call("update_job", JOB | {"timeout": "10m"}),
        Call("list_changes", {"since": "this week", "mine": True}, "changes"),
        Call("undo_change", {"change": "{changes.changes.1.undo}"}, "undone"),
        Call("job_status", JOB),
        changes__changes__0__changed=["Timeout 1 min → 10 min"],
        changes__changes__1__changed=["Sundays at 04:00 → 03:00"],
        changes__changes__2__action="create",
        undone__undone=1,
        said__description="Sundays at 04:00",
        said__timeout="10m",
    ),
    task(
        "Which jobs are paused?", Call("list_jobs", {"status": "paused"}), given="a household", said__total=0
    ),
    task(
        "Run the backup now.",
        DAILY,
        Call("run_job", JOB),
        said__status="queued",
    ),
    task(
        "Run the site check now. (There is no job for it.)",
        Call("run_task", {"task": "webhook", "kwargs": {"url": "https://example.org", "method": "GET"}}),
        Call("list_runs", {"from": "today", "to": "tomorrow", "task": "webhook"}, "runs"),
        said__status="queued",
        runs__total=1,
    ),
    task(
        "Copy my tea reminder for Anna; her topic is anna.",
        TEA,
        Call(
            "copy_job",
            {"job_id": "{made.schedule_id}", "name": "Tea for Anna", "kwargs": {"topic": "anna"}},
            "copy",
        ),
        Call("job_status", {"job_id": "Tea for Anna"}),
        copy__description="Every day at 16:00",
        said__kwargs={"message": "Drink tea", "topic": "anna"},
    ),
    task("Stop all agents at once!", Call("stop_agents"), said__runs_ended=0),
    task(
        "What time is it in Tokyo?",
        Call("get_current_time", {"timezone": "Tokyo"}),
        said__local="2026-02-04T20:00:00+09:00",
        said__user_timezone="Europe/Berlin",
    ),
    task(
        "Would 30 February ever come?",
        Call("preview_schedule", cron("0 9 30 2 *")),
        said__next_runs=[],
        said__description="Never",
    ),
    task(
        "What happens to a job at 2:30 when the clocks change?",
        Call("preview_schedule", cron("30 2 * * *")),
        said__warnings__0=Contains("02:30"),
    ),
    # What models get slightly wrong, and what helps them on.
    task(
        "What failed this week, in so many words?",
        Call("list_jobs", {"outcome": "failed", "since": "this week"}),
        given="a bad week",
        said__jobs__0__name="Backup",
    ),
    task(
        "Show me the BACKUP.",
        Call("job_status", {"job_id": "BACKUP"}),
        given="a bad week",
        said__name="Backup",
    ),
    task(
        "Try again after ten minutes, for at most half an hour.",
        DAILY,
        Call("update_job", JOB | {"backoff": "ten minutes", "timeout": "half an hour"}),
        Call("job_status", JOB),
        said__backoff="10m",
        said__timeout="30m",
    ),
    task(
        "Remind me in 2 hours.",
        Call("schedule_notification", {"message": "Hello", "delay": "2 hours"}),
        said__scheduled_time="2026-02-04T14:00:00+01:00",
    ),
    task(
        "Tag the backup home and nas.",
        DAILY,
        Call("update_job", JOB | {"tags": "home, nas"}),
        Call("job_status", JOB),
        said__tags=["home", "nas"],
    ),
    task(
        "Run the hourly job daily at 7 instead.",
        Call("schedule_job", BACKUP | every(hours=1), "made"),
        Call("update_job", JOB | {"trigger_config": {"expression": "0 7 * * *"}}),
        said__next_runs__0="2026-02-05T07:00:00+01:00",
    ),
    task(
        "Every weekday at 9, as a cron expression in words.",
        Call("preview_schedule", cron("every weekday at 9")),
        said__error="Invalid cron expression: every weekday at 9",
        said__hint=Contains('"0 9 * * 1-5"'),
    ),
    task(
        "Every day at 8, have an agent read my mail.",
        Call("schedule", {"at": "every day at 8", "prompt": "Read my mail"}),
        said=Contains("hint: this repeats: use schedule_cron_notification for a reminder, else schedule_job"),
    ),
    task(
        "Remind me of water every two hours; you know my topic.",
        Call(
            "schedule_job",
            {"name": "Water", "task": "notify", "kwargs": {"message": "Water"}, **every(hours=2)},
            "made",
        ),
        Call("job_status", JOB),
        said__kwargs__topic="my-phone",
    ),
    task(
        "Stop everything about the garden. Undo, as you said.",
        Call("bulk_jobs", {"action": "pause", "query": "garden"}, "asked"),
        Call("bulk_jobs", {"action": "pause", "query": "garden", "confirm": "{asked.confirm}"}, "done"),
        Call("undo_change"),
        given="a household",
        said__undone=2,
    ),
    # Preferences.
    task(
        "I live in Lisbon, and my topic is pocket.",
        Call("set_preferences", {"timezone": "Lisbon", "topic": "pocket"}),
        Call("schedule_notification", {"message": "Hello", "datetime": "tomorrow at 9"}, "made"),
        said__timezone="Europe/Lisbon",
        made__scheduled_time="2026-02-05T09:00:00+00:00",
        made__notification_topic="pocket",
    ),
    task(
        "Tell me when one of my jobs fails.",
        Call("get_preferences", name="before"),
        Call("set_preferences", {"failure_topic": "{before.topic}"}),
        said__failure_topic="my-phone",
    ),
    task(
        "Where do you think I am?",
        Call("get_preferences"),
        said__timezone="Europe/Berlin",
        said__topic="my-phone",
    ),
    task(
        "Remind me tomorrow at 9. (Nobody knows where I am.)",
        Call("set_preferences", {"timezone": ""}),
        Call("schedule_notification", {"message": "Hello", "datetime": "tomorrow at 9"}),
        said__warning=Contains("The user has set no time zone"),
    ),
    # Prompts for an agent.
    task(
        "Have an agent check the build at 6 pm; let it try twice.",
        Call("schedule", {"at": "today at 6pm", "prompt": "Check the build", "attempts": 2}),
        Call("list_jobs", {"query": "build"}, "found"),
        Call("job_status", {"job_id": "{found.jobs.0.job_id}"}, "shown"),
        said=Contains("Wed 2026-02-04 18:00 Europe/Berlin"),
        shown__attempts=2,
    ),
    task(
        "Every morning at 8, have an agent read my inbox.",
        Call(
            "schedule_job",
            {"name": "Inbox", "task": "prompt", "kwargs": {"prompt": "Read my inbox"}, **cron("0 8 * * *")},
        ),
        said__next_runs__0="2026-02-05T08:00:00+01:00",
    ),
    task(
        "What will my agent do? Move the report to Friday at 10.",
        Call("schedule", {"at": "tomorrow at 9am", "prompt": "Write the report"}),
        Call("schedule_edit", {"id": "Write the report", "at": "friday 10:00"}),
        Call("schedule_list", name="listed"),
        said=Contains("time → Fri 2026-02-06 10:00"),
        listed=Contains("Write the report"),
    ),
    task(
        "The agent need not write the report.",
        Call("schedule", {"at": "tomorrow at 9am", "prompt": "Write the report"}),
        Call("schedule_cancel", {"id": "Write the report"}),
        Call("schedule_list", name="listed"),
        said=Contains("Cancelled task #"),
        listed="No scheduled tasks found matching filters.",
    ),
    task(
        "Agent, is there anything to do? Do it.",
        Call("claim_prompts", {}, "claimed"),
        Call(
            "complete_prompt", {"execution_id": "{claimed.prompts.0.execution_id}", "result": "All is well"}
        ),
        given="a prompt that is due",
        claimed__prompts__0__prompt="Look at the logs",
        said__completed=True,
    ),
)
