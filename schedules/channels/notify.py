"""The task notify: a message to an ntfy topic, or by a channel of the job's owner."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from schedules.channels.message import DEFAULT_PRIORITY, Message
from schedules.channels.push import NTFY
from schedules.channels.sending import send
from schedules.channels.stored import find_channel, note_delivery
from schedules.tasks.argument_types import Action, FileLink, Line, Link, Priority, Text, Topic
from schedules.tasks.interface import Final, RetryLater, Run
from schedules.tasks.registry import task

ChannelName = Annotated[
    str, Field(min_length=1, max_length=40, description="One of the owner's channels, instead of a topic.")
]


def _place_problems(values: Mapping[str, Any]) -> list[str]:
    if values.get("topic") and values.get("channel"):
        return ["channel: give a topic or a channel, not both"]
    return [] if values.get("topic") or values.get("channel") else ["topic: give a topic or a channel"]


@task(title="Notification", attempts=5, check=_place_problems)
async def notify(
    message: Text,
    topic: Topic | None = None,
    title: Line | None = None,
    priority: Priority | None = None,
    tags: Annotated[list[Line], Field(max_length=20)] | None = None,
    markdown: bool | None = None,
    click: Link | None = None,
    icon: FileLink | None = None,
    attach: FileLink | None = None,
    filename: Line | None = None,
    actions: Annotated[list[Action], Field(max_length=3)] | None = None,
    channel: ChannelName | None = None,
    *,
    run: Run,
) -> dict[str, Any]:
    """Send a push notification to everybody who follows the topic on the ntfy server, or by a channel."""
    only_ntfy = {
        "markdown": markdown,
        "icon": icon,
        "attach": attach,
        # Without a file, ntfy refuses the whole message.
        "filename": filename if attach else None,
    }
    content = Message(
        message,
        title or "",
        priority or DEFAULT_PRIORITY,
        tags or (),
        click or "",
        actions or (),
        {name: value for name, value in only_ntfy.items() if value is not None},
        run.key,
    )
    if channel:
        return await send_by_channel(run.owner_id, channel, content, run)
    values = {"topic": str(topic)}
    receipt = await send(NTFY, values, content, run)
    result = {"id": receipt["id"], "topic": topic, "server": receipt["server"]}
    return {**result, "shortened": True} if _is_shortened(values, content) else result


async def send_by_channel(owner_id: int, name: str, message: Message, run: Run) -> dict[str, Any]:
    """Send a message by a person's channel, and record how that went; raises Final or RetryLater."""
    found = await find_channel(owner_id, name)
    if not found.is_confirmed:
        raise Final(f"The channel {name} is not confirmed: enter the code on the page of channels.")
    try:
        receipt = await send(found.kind, found.values, message, run)
    except (Final, RetryLater) as error:
        await note_delivery(found, str(error))
        raise
    await note_delivery(found)
    return {"channel": name, **{key: value for key, value in receipt.items() if value is not None}}


def _is_shortened(values: Mapping[str, str], message: Message) -> bool:
    assert NTFY.request
    return bool(NTFY.request(values, message).body["message"] != message.text)
