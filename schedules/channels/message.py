"""A message to a person, independent of the channel, and helpers to fit it into a service's size limit."""

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
    """The content of a notification; a kind of channel leaves out what its service does not support."""

    text: str
    title: str = ""
    priority: int = DEFAULT_PRIORITY
    """1 (min) to 5 (urgent)."""
    tags: Sequence[str] = ()
    click: str = ""
    """What a tap on the message opens."""
    actions: Sequence[Mapping[str, Any]] = ()
    """Buttons in ntfy's format; other services show only those that open a page, as links."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Options that only ntfy has: markdown, icon, attach, filename."""
    key: str = ""
    """The same for all attempts, for services that discard duplicates."""

    @property
    def links(self) -> list[MessageLink]:
        """Everything a person can open: the page behind the message, and the buttons that open a page."""
        all_links = [MessageLink("Open", self.click)] if self.click else []
        buttons = [button for button in self.actions if button.get("action") == "view"]
        return [*all_links, *(MessageLink(str(button["label"]), str(button["url"])) for button in buttons)]

    @property
    def listed_links(self) -> str:
        """The links as lines of plain text."""
        return "\n".join(f"{link.label}: {link.url}" for link in self.links)


def count_units(text: str) -> int:
    """Count UTF-16 code units, as chat services do: most emoji count twice."""
    return len(text.encode("utf-16-le")) // 2


def fit(text: str, max_units: int) -> str:
    """Cut a text that is too long, and mark it as shortened."""
    if count_units(text) <= max_units:
        return text
    room = max_units - len(limits.SHORTENED)
    return text.encode("utf-16-le")[: 2 * room].decode("utf-16-le", errors="ignore") + limits.SHORTENED


def text_with_links(message: Message, max_units: int, *, title: str = "") -> str:
    """Return the title, text and links as plain text; if it is too long, the text is cut, not the links."""
    surroundings = "\n\n".join(part for part in (title, message.listed_links) if part)
    room = max_units - count_units(surroundings) - 4
    text = fit(message.text, max(room, len(limits.SHORTENED)))
    return fit("\n\n".join(part for part in (title, text, message.listed_links) if part), max_units)
