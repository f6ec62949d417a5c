"""The task `notify`: send a message to an ntfy topic, or by one of the owner's channels."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from schedules.channels.message import DEFAULT_PRIORITY, Message
from schedules.channels.push import NTFY
from schedules.channels.sending import ENDED_MESSAGE, ChannelEnded, send
from schedules.channels.stored import find_channel, record_delivery
from schedules.tasks.argument_types import (
    Action,
    AskText,
    FileLink,
    Line,
    Link,
    Priority,
    Shown,
    Text,
    Topic,
    place_problems,
    template_problems,
)
from schedules.tasks.asking import read_ask
from schedules.tasks.interface import Asked, Final, RetryLater, Run
from schedules.tasks.registry import task
from schedules.tasks.signed_links import ask_for_answer

NTFY_ONLY_FIELDS = ("markdown", "icon", "attach", "filename")
ChannelName = Annotated[
    str,
    Field(min_length=1, max_length=40, description="One of the owner's channels, instead of a topic."),
    Shown(hint="One of your channels, instead of a topic", is_first=True),
]


@task(title="Notification", attempts=5, check=place_problems, check_written=template_problems)
async def notify(
    message: Annotated[
        Text, Shown(hint="It can name facts of the run, like {{ job.name }} or {{ run.date }}")
    ],
    topic: Annotated[Topic, Shown(hint="Up to 64 letters, digits, - or _", is_first=True)] | None = None,
    title: Line | None = None,
    priority: Annotated[Priority, Shown(hint="")] | None = None,
    tags: Annotated[
        list[Line],
        Field(max_length=20),
        Shown("Emojis", "Short codes like warning or tada, separated by commas"),
    ]
    | None = None,
    markdown: Annotated[bool, Shown("Format as Markdown")] | None = None,
    click: Annotated[Link, Shown("Open this link when tapped")] | None = None,
    icon: Annotated[FileLink, Shown("Icon (URL)")] | None = None,
    attach: Annotated[FileLink, Shown("Attach a file from (URL)")] | None = None,
    filename: Annotated[Line, Shown("File name")] | None = None,
    actions: Annotated[list[Action], Field(max_length=3), Shown("Buttons", "Up to three, as a JSON list")]
    | None = None,
    ask: Annotated[
        AskText,
        Field(description='Buttons for an answer: "yes", or until done "every 10m 5 times".'),
        Shown(
            "Ask for an answer",
            "“yes” for the buttons Done, Snooze and Skip next; “every 10m 5 times” to be reminded until done; "
            "“every 10m 5 times then other-topic” (or the name of a channel) to tell somebody else after that",
        ),
    ]
    | None = None,
    channel: ChannelName | None = None,
    *,
    run: Run,
) -> dict[str, Any] | Asked:
    """Send a push notification to everybody who follows the topic on the ntfy server, or by a channel."""
    fields: dict[str, Any] = {
        "topic": topic,
        "channel": channel,
        "title": title,
        "priority": priority,
        "tags": tags,
        "markdown": markdown,
        "click": click,
        "icon": icon,
        "attach": attach,
        # ntfy refuses a message that has a file name but no file.
        "filename": filename if attach else None,
        "actions": actions,
    }
    reminder = await run.find_reminder() if ask else None
    if ask:
        ask_for_answer(fields, run, reminder)
    content = _message_of(message, fields, run)
    if fields["channel"]:
        result = await send_by_channel(run.owner_id, fields["channel"], content, run)
    else:
        result = await _send_to_topic(str(fields["topic"]), content, run)
    return Asked(result, read_ask(ask)) if ask and reminder is None else result


def _message_of(message: str, fields: Mapping[str, Any], run: Run) -> Message:
    return Message(
        message,
        fields["title"] or "",
        fields["priority"] or DEFAULT_PRIORITY,
        fields["tags"] or (),
        fields["click"] or "",
        fields["actions"] or (),
        {name: fields[name] for name in NTFY_ONLY_FIELDS if fields[name] is not None},
        run.key,
    )


async def _send_to_topic(topic: str, message: Message, run: Run) -> dict[str, Any]:
    values = {"topic": topic}
    receipt = await send(NTFY, values, message, run)
    result = {"id": receipt["id"], "topic": topic, "server": receipt["server"]}
    return {**result, "shortened": True} if _is_shortened(values, message) else result


async def send_by_channel(owner_id: int, name: str, message: Message, run: Run) -> dict[str, Any]:
    """Send a message by a person's channel, and record the outcome; raises Final or RetryLater."""
    channel = await find_channel(owner_id, name)
    if not channel.is_confirmed:
        if channel.kind.can_end:
            raise Final(ENDED_MESSAGE)
        raise Final(f"The channel {name} is not confirmed: enter the code on the page of channels.")
    try:
        receipt = await send(channel.kind, channel.values, message, run)
    except (Final, RetryLater) as error:
        await record_delivery(channel, str(error), has_ended=isinstance(error, ChannelEnded))
        raise
    await record_delivery(channel)
    return {"channel": name, **{key: value for key, value in receipt.items() if value is not None}}


def _is_shortened(values: Mapping[str, str], message: Message) -> bool:
    assert NTFY.request
    return bool(NTFY.request(values, message).body["message"] != message.text)
