"""Tools for push notifications: send one now, later or repeatedly, and list those still to be sent."""

import logging
import re
from collections.abc import Mapping
from typing import Annotated, Any

from django.db import DatabaseError, InterfaceError, OperationalError
from pydantic import Field, StrictBool

from schedules import clock, limits, services
from schedules.mcp import answers
from schedules.mcp.answers import refusals
from schedules.mcp.answers.notifications import (
    ChangedOut,
    CronOut,
    LaterOut,
    ListOut,
    RefusedOut,
    SentOut,
    TimeOut,
    cron_out,
    failed,
    later_out,
    listed_out,
    listed_rows,
    server_refusal_of,
)
from schedules.mcp.answers.refusals import RefusedCallError, expect
from schedules.mcp.auth import current_actor, orm
from schedules.mcp.tools.arguments import (
    LIMITED_POLICIES,
    RETRIES,
    Group,
    IdempotencyKey,
    MissingArgumentError,
    PageLimit,
    PageOffset,
    Reference,
    TextList,
    Timezone,
    Whole,
    ZoneText,
    derived_name,
    page_of,
)
from schedules.mcp.tools.moments import read_one_moment
from schedules.mcp.tools.triggers import create, once, read_trigger, zone_notes
from schedules.models import Execution, Job, Profile
from schedules.models.counting import COUNTED
from schedules.result import Code, Err, Kind, RefusedError, Result, invalid
from schedules.services.jobs.prompt_list import unsent_notifications
from schedules.services.people.channels import place_of
from schedules.services.runs.actions import run_of
from schedules.tasks import registry
from schedules.tasks.interface import Final, RetryLater
from schedules.when.triggers import TriggerError, load_zone
from schedules.when.zone_names import zone_named

logger = logging.getLogger(__name__)

_ZONED_CRON = re.compile(r"\s*(?:CRON_)?TZ=(?P<zone>\S+)\s+(?P<cron>.+)", re.DOTALL)

CUT_OFF = (
    "The message was too long for one notification, and its end was cut off: send the rest in another one."
)

Message = Annotated[str, Field(description="The text, up to 4,000 bytes.")]
Topic = Annotated[
    str | None,
    Field(description="The user's ntfy topic; never invent one. Default: the one set."),
]


# What a notification may carry besides its message.
CONTENT: Group = {
    "title": Annotated[str | None, Field(description="A title line.")],
    "priority": Annotated[Whole | None, Field(description="1 to 5 (urgent).")],
    "tags": Annotated[TextList | None, Field(description="Words or emoji names.")],
    "markdown": Annotated[StrictBool | None, Field(description="Is it Markdown?")],
    "click": Annotated[str | None, Field(description="URL to open.")],
    "icon": Annotated[str | None, Field(description="URL of an icon.")],
    "attach": Annotated[str | None, Field(description="URL of a file.")],
    "filename": Annotated[str | None, Field(description="Its file name.")],
    "actions": Annotated[
        list[dict[str, Any]] | None, Field(description="Up to 3 buttons, as in ntfy's JSON.")
    ],
}
ASKING: Group = CONTENT | {
    "ask": Annotated[
        str | None,
        Field(description='Remind until the user says done: "every 10m 5 times"; once: "yes".'),
    ],
}


async def send_push_notification(
    message: Message,
    notification_topic: Topic = None,
    **options: Annotated[Any, CONTENT],
) -> SentOut | RefusedOut:
    """Send a notification to the user's phone now. For later, use schedule_notification; to
    repeat it, schedule_cron_notification. After an error, tell the user, and do not send it again at once.
    """
    task = registry.get("notify")
    assert task is not None
    actor = current_actor()
    profile = actor.profile or await orm(actor.read_profile)()
    content = await orm(_content)(profile, message, notification_topic, options)
    # There is no job whose facts placeholders could name.
    if problems := task.check([], content, are_filled=True):
        raise RefusedError(invalid("kwargs", problems[0]))
    push = expect(await orm(services.begin_push)(actor, content))
    try:
        sent = await task.call(run_of(push), [], content)
    except (Final, RetryLater) as error:
        await orm(_end_push)(push, error=str(error))
        return server_refusal_of(error)
    except Exception as error:
        await orm(_end_push)(push, error=f"Unexpected error: {type(error).__name__}.")
        raise
    await orm(_end_push)(push, result=sent)
    out: SentOut = {
        "success": True,
        "id": str(sent["id"]) if sent.get("id") else None,
        "confirmation": "Push notification sent successfully",
    }
    return {**out, "warning": CUT_OFF} if "shortened" in sent else out


def schedule_notification(
    message: Message,
    notification_topic: Topic = None,
    datetime: Annotated[
        str | None,
        Field(description="Like 2026-02-05T15:00 or tomorrow at 9am, in timezone or the user's zone."),
    ] = None,
    date: Annotated[str | None, Field(description="YYYY-MM-DD, beside time. Default: today.")] = None,
    time: Annotated[str | None, Field(description="HH:MM, beside timezone.")] = None,
    timezone: Annotated[ZoneText | None, Field(description="City or IANA zone.")] = None,
    delay: Annotated[str | None, Field(description="From now, like 1d2h30m.")] = None,
    idempotency_key: IdempotencyKey = None,
    **options: Annotated[Any, RETRIES | ASKING],
) -> LaterOut | RefusedOut:
    """Remind the user later on their phone, once, like an alarm. Ask for an unknown zone; report the description.
    Give exactly one of datetime, time (with timezone, perhaps date) and delay. To repeat it, use
    schedule_cron_notification.
    """
    actor = current_actor()
    profile = actor.read_profile()
    zone = timezone if timezone is not None else profile.zone
    when = {"datetime": datetime, "date": date, "time": time, "timezone": timezone, "delay": delay}
    arguments = when if timezone is not None else when | {"timezone": profile.timezone or None}
    moment = read_one_moment({name: text for name, text in arguments.items() if text is not None}, zone)
    content = _content(profile, message, notification_topic, options)
    made = create(
        once(moment, zone),
        options,
        zone,
        profile=profile,
        prefix="msg",
        idempotency_key=idempotency_key,
        request={
            "tool": "schedule_notification",
            **when,
            **options,
            "message": message,
            "topic": notification_topic,
        },
        name=derived_name("notify", content),
        task="notify",
        kwargs=content,
    )
    return later_out(expect(made, timezone=zone), delay, *zone_notes(profile, timezone, datetime))


def schedule_cron_notification(
    message: Message,
    cron: Annotated[
        str, Field(description="Minute hour day month weekday: 30 8 * * 1-5 is 8:30 on weekdays.")
    ],
    timezone: Timezone = None,
    notification_topic: Topic = None,
    label: Annotated[str | None, Field(description="A name for lists.")] = None,
    idempotency_key: IdempotencyKey = None,
    **options: Annotated[Any, LIMITED_POLICIES | ASKING],
) -> CronOut | RefusedOut:
    """Remind the user on their phone every morning, weekday or month, by cron. Ask for an unknown zone; report the
    description. For "every two weeks", use schedule_job with task "notify" and an interval.
    """
    actor = current_actor()
    profile = actor.read_profile()
    # Our own answers put the zone in front of the expression, so accept it here too.
    zoned = _ZONED_CRON.fullmatch(cron)
    zone_in_cron = zone_named(zoned["zone"]) if zoned else None
    zone = timezone if timezone is not None else zone_in_cron or profile.timezone
    if timezone is None and not zone:
        raise MissingArgumentError("timezone", "The user has set no zone: ask where they live.")
    if zone_in_cron not in (None, zone):
        raise RefusedError(invalid("cron", f"its zone is not the timezone {zone}: give one of them"))
    expression = zoned["cron"] if zoned else cron
    content = _content(profile, message, notification_topic, options)
    made = create(
        read_trigger("cron", {"expression": expression}, zone, clock.now(), takes_phrases=False),
        options,
        zone,
        profile=profile,
        prefix="scd",
        idempotency_key=idempotency_key,
        request={
            "timezone": timezone,
            "cron": cron,
            **options,
            "message": message,
            "topic": notification_topic,
            "label": label,
        },
        name=derived_name("notify", content, label=label or ""),
        task="notify",
        kwargs=content,
        label=label or "",
    )
    return cron_out(expect(made, timezone=zone))


def list_scheduled_notifications(
    notification_topic: Annotated[str | None, Field(description="Only those of this topic.")] = None,
    limit: PageLimit = None,
    offset: PageOffset = None,
) -> ListOut | RefusedOut:
    """List the notifications still to be sent, with their ids. `count` counts up to 10,000. To search or see past
    ones, use list_jobs.
    """
    size, start = page_of(limit, offset)
    if notification_topic is not None and not re.fullmatch(limits.TOPIC_PATTERN, notification_topic):
        return {"schedules": [], "count": 0}
    page, count = unsent_notifications(
        current_actor(), listed_rows, topic=notification_topic, size=size, start=start
    )
    out: ListOut = {"schedules": [listed_out(row) for row in page], "count": min(count, COUNTED)}
    if page and start + len(page) < count:
        out["next_offset"] = start + len(page)
    return {**out, "note": answers.more_than(COUNTED, "notifications")} if count > COUNTED else out


def get_current_time(
    timezone: Annotated[ZoneText | None, Field(description="City or IANA zone. Default: UTC.")] = "UTC",
) -> TimeOut | RefusedOut:
    """Return the date and time in a zone, and `user_timezone`, the zone that the user has set (null: ask
    them).
    """
    name = "UTC" if timezone is None else timezone
    try:
        zone = load_zone(name)
    except TriggerError as error:
        raise RefusedCallError(invalid(error.field, error.reason), {"timezone": name}) from error
    now = clock.now()
    there = now.astimezone(zone)
    return {
        "utc": answers.iso(now, "UTC"),
        "date": f"{there:%Y-%m-%d}",
        "time": f"{there:%H:%M:%S}",
        "timezone": name,
        "local": answers.iso(now, name),
        "user_timezone": current_actor().read_profile().timezone or None,
    }


def _content(profile: Profile, message: str, topic: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments for the task notify."""
    place = profile.default_place if topic is None else place_of(profile.user_id, topic)
    if not place:
        raise MissingArgumentError(
            "notification_topic", "The user has set no topic: ask which one they follow."
        )
    return {"message": message} | place | {name: value for name, value in options.items() if name in ASKING}


def _end_push(push: Execution, **outcome: Any) -> None:
    try:
        services.end_push(push, **outcome)
    except (OperationalError, InterfaceError):
        # A notification that was sent must not be reported as an error: the agent would send it again.
        logger.exception("The outcome of notification %s could not be recorded", push.pk)


ScheduleId = Annotated[Reference, Field(description="Id, #number or exact name.")]


def pause_schedule(schedule_id: ScheduleId) -> ChangedOut | RefusedOut:
    """Pause a notification until resume_schedule is called; what falls into the pause is not sent. To pause
    until a time, use pause_job.
    """
    return _changed(services.pause(current_actor(), schedule_id), schedule_id, paused=True)


def resume_schedule(schedule_id: ScheduleId) -> ChangedOut | RefusedOut:
    """End the pause of a notification: it goes on with its next scheduled time. Harmless if repeated."""
    return _changed(services.resume(current_actor(), schedule_id), schedule_id, paused=False)


def delete_schedule(
    schedule_id: Annotated[
        Reference,
        Field(
            description="The schedule ID to delete. This ID is returned when creating a cron schedule. "
            "A #number or an exact name works too."
        ),
    ],
) -> ChangedOut | RefusedOut:
    """Delete a scheduled notification by its ID: it stops firing. Take the ID from the conversation or a list,
    and ask the user only if it is in neither. To stop it for a while, use pause_schedule. restore_job brings
    it back.
    """
    try:
        deleted = services.delete(current_actor(), schedule_id)
    except (DatabaseError, InterfaceError):
        # The connection may have broken after the change was made.
        reason = (
            "the database did not answer, so this may or may not have been done: look before you repeat it."
        )
        return failed(f"Failed to delete schedule: {reason}", schedule_id)
    job_id = expect(deleted).public_id
    confirmation = f"Schedule {job_id} deleted successfully"
    undo = answers.restore_call(job_id)
    return {"success": True, "schedule_id": job_id, "confirmation": confirmation, "undo": undo}


def _changed(result: Result[Job], schedule_id: str, *, paused: bool) -> ChangedOut | RefusedOut:
    requested = Job.Status.PAUSED if paused else Job.Status.PENDING
    match result:
        case Err(kind=Kind.WRONG_STATE, state=status) if status == requested:
            # A repeated call is harmless: the schedule already has the requested status.
            pass
        case Err(code=Code.INVALID) as error:
            way_out = "To do so, delete it with delete_schedule and schedule it anew."
            return failed(refusals.nothing_to_resume(error, way_out), schedule_id)
        case Err() as error:
            raise RefusedError(error)
    done = "paused" if paused else "resumed"
    return {
        "success": True,
        "schedule_id": schedule_id,
        "paused": paused,
        "confirmation": f"Schedule {schedule_id} {done} successfully",
    }
