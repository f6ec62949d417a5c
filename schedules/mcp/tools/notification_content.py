"""The content of a notification: the types of its arguments, and how they are read for the task notify."""

from typing import Annotated, Any

from pydantic import Field, StrictBool

from schedules.mcp.tools.arguments import MissingArgumentError, Whole, Words
from schedules.models import Profile

Message = Annotated[str, Field(description="The text, at most 4,000 bytes.")]
Topic = Annotated[
    str | None,
    Field(description="ntfy topic of the user. Default: the one they have set. Never invent one."),
]
Title = Annotated[str | None, Field(description="A title line.")]
Priority = Annotated[Whole | None, Field(description="1 to 5 (urgent).")]
Tags = Annotated[Words | None, Field(description='Words or emoji names, like ["warning"].')]
Markdown = Annotated[StrictBool | None, Field(description="Is it Markdown?")]
Click = Annotated[str | None, Field(description="URL to open.")]
Icon = Annotated[str | None, Field(description="URL of an icon.")]
Attach = Annotated[str | None, Field(description="URL of a file.")]
Filename = Annotated[str | None, Field(description="Its file name.")]
Actions = Annotated[
    list[dict[str, Any]] | None,
    Field(description='Up to 3, like {"action": "view", "label": "Open", "url": "https://…"}.'),
]


def read_content(profile: Profile, message: str, topic: str | None, **optional: Any) -> dict[str, Any]:
    """Collect the arguments for the task notify, without those that were not given."""
    given = {name: value for name, value in optional.items() if value is not None}
    return {"message": message, "topic": _topic(profile, topic), **given}


def _topic(profile: Profile, given: str | None) -> str:
    topic = profile.default_topic if given is None else given
    if not topic and given is None:
        raise MissingArgumentError(
            "notification_topic", "The user has set no topic: ask which one they follow."
        )
    return topic
