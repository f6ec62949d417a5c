"""A message to a person, as every kind of channel gets it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from schedules import limits

DEFAULT_PRIORITY = 3
HIGH_PRIORITY = 4


class MessageLink(NamedTuple):
    """A link under a message."""

    label: str
    url: str


@dataclass(frozen=True)
class Message:
    """What is sent; a kind leaves out what its service does not have."""

    text: str
    title: str = ""
    priority: int = DEFAULT_PRIORITY
    """1 (min) to 5 (urgent)."""
    tags: Sequence[str] = ()
    click: str = ""
    """What a tap on the message opens."""
    actions: Sequence[Mapping[str, Any]] = ()
    """Buttons in the form of ntfy: only those that open a page are links elsewhere."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """What only ntfy has: markdown, icon, attach, filename."""
    key: str = ""
    """Stays the same over attempts, for services that recognise repetitions."""

    @property
    def links(self) -> list[MessageLink]:
        """What people can open: the page behind the message, and buttons that open one."""
        all_links = [MessageLink("Open", self.click)] if self.click else []
        buttons = [button for button in self.actions if button.get("action") == "view"]
        return [*all_links, *(MessageLink(str(button["label"]), str(button["url"])) for button in buttons)]

    @property
    def listed_links(self) -> str:
        """The links as lines of plain text."""
        return "\n".join(f"{link.label}: {link.url}" for link in self.links)


def units(text: str) -> int:
    """Count a text as chat services do: a character beyond the first 65,536, like most emoji, counts twice."""
    return len(text.encode("utf-16-le")) // 2


def fitted(text: str, most: int) -> str:
    """Cut a text to so many units, and mark it as shortened."""
    if units(text) <= most:
        return text
    room = most - len(limits.SHORTENED)
    return text.encode("utf-16-le")[: 2 * room].decode("utf-16-le", errors="ignore") + limits.SHORTENED


def with_links(message: Message, most: int, *, before: str = "") -> str:
    """Return text and links as plain text of at most so many units; the text is cut, not the links."""
    parts = [before, message.text, message.listed_links]
    room = most - units("\n\n".join(part for part in (before, "", message.listed_links) if part)) - 4
    parts[1] = fitted(message.text, max(room, len(limits.SHORTENED)))
    return fitted("\n\n".join(part for part in parts if part), most)
