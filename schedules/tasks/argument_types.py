"""The types of the built-in tasks' arguments, with error messages for people, and how forms show arguments."""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, get_args

from django.conf import settings
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field
from typing_extensions import TypedDict

from schedules import limits
from schedules.secrets.references import names_in, without_references
from schedules.tasks import outbound
from schedules.tasks.asking import read_ask
from schedules.tasks.links import link_problem
from schedules.tasks.outbound.headers import header_problem, shape_problem
from schedules.tasks.placeholders import ANY_PLACEHOLDER, FACTS, TEXTS

PROMPT_BYTES = 16_384
COMMAND_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")
_AFTER_HOST = re.compile(r"[/?#]")
# What starts a run brings its own values, whose names are not known in advance.
_OPEN_NAMESPACES = ("upstream", "trigger")


@dataclass(frozen=True)
class Shown:
    """How forms show an argument, as a part of its annotation."""

    label: str = ""
    hint: str | None = None
    """Shown instead of the description in the schema, which is for agents."""
    is_first: bool = False
    """Whether it is one of the few optional arguments that are always visible."""


def shown_of(annotation: Any) -> Shown:
    """Return how forms show an argument with this annotation, which may be optional."""
    parts = get_args(annotation)
    own = (part for part in parts if isinstance(part, Shown))
    inner = (shown for part in parts if (shown := shown_of(part)) != Shown())
    return next(own, None) or next(inner, Shown())


def _web_address(url: str) -> str:
    if names_in(_AFTER_HOST.split(url.partition("://")[2], maxsplit=1)[0]):
        raise ValueError("a secret can be in the path and the query, but not in the host")
    if problem := outbound.problem_with_url(without_references(url)):
        raise ValueError(problem)
    return url


def _refuse_if(problem_of: Callable[[str], str | None]) -> AfterValidator:
    """Return a validator that refuses a text for the reason that a function returns."""

    def check(text: str) -> str:
        if problem := problem_of(text):
            raise ValueError(problem)
        return text

    return AfterValidator(check)


def _refuse_headers_if(problem_of: Callable[[str, str], str | None]) -> AfterValidator:
    """Return a validator that refuses headers for the reason that a function returns for a name and a value."""

    def check(headers: dict[str, str]) -> dict[str, str]:
        if problem := next(filter(None, itertools.starmap(problem_of, headers.items())), None):
            raise ValueError(problem)
        return headers

    return AfterValidator(check)


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


def _prompt_size(prompt: str) -> str:
    if len(prompt.encode()) > PROMPT_BYTES:
        raise ValueError(f"must be at most {PROMPT_BYTES} bytes")
    return prompt


Text = Annotated[str, AfterValidator(_not_blank)]
PromptText = Annotated[Text, AfterValidator(_prompt_size)]
Topic = Annotated[
    str,
    _refuse_if(limits.topic_problem),
    Field(
        description="Letters, digits, - and _; 1 to 64.", json_schema_extra={"pattern": limits.TOPIC_PATTERN}
    ),
]
Priority = Annotated[int, Field(ge=1, le=5, description="1 (min) to 5 (urgent); 3 is the default.")]
Line = Annotated[str, Field(min_length=1, max_length=256), _refuse_if(limits.hidden_problem)]
WebAddress = Annotated[str, AfterValidator(_web_address)]
Address = Annotated[str, Field(min_length=1, max_length=outbound.LONGEST_URL)]
Link = Annotated[Address, _refuse_if(link_problem)]
HttpLink = Annotated[Address, Field(pattern=r"^https?://[^\s]+$"), _refuse_if(link_problem)]
# Names are not resolved here: the ntfy server or the phone fetches the file, and may resolve them differently.
FileLink = Annotated[HttpLink, _refuse_if(outbound.problem_with_url)]
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]
Headers = Annotated[
    dict[str, str],
    Field(max_length=20),
    _refuse_headers_if(lambda name, value: header_problem(name, value, settings.CRONTY_WEBHOOK_HEADERS)),
]
SECRET_HEADERS = Shown(hint="One name and value a row; ${secret:NAME} stands for one of your secrets")


def _readable_ask(text: str) -> str:
    read_ask(text)
    return text


def is_address(gate: str) -> bool:
    """Return whether a gate is an address rather than the name of a command."""
    return "://" in gate


def _gate(text: str) -> str:
    if is_address(text):
        return _web_address(text)
    if not COMMAND_NAME.fullmatch(text):
        raise ValueError("give the name of a command, or an address with https://")
    return text


def gate_problems(values: Mapping[str, Any]) -> list[str]:
    """List what is wrong with a gate and its arguments or headers."""
    gate = values.get("gate")
    if values.get("gate_arguments") and (not gate or is_address(gate)):
        return ["gate_arguments: only a gate that is a command takes arguments"]
    if values.get("gate_headers") and not (gate and is_address(gate)):
        return ["gate_headers: only a gate that is an address takes headers"]
    return []


Gate = Annotated[Address, AfterValidator(_gate)]
AskText = Annotated[str, Field(max_length=200), AfterValidator(_readable_ask)]


class ViewAction(TypedDict):
    """A button that opens a page or an app."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]
    action: Literal["view"]
    label: Line
    url: Link
    clear: NotRequired[bool]


class HttpAction(TypedDict):
    """A button that makes the phone send a request."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]
    action: Literal["http"]
    label: Line
    url: HttpLink
    method: NotRequired[Method]
    headers: NotRequired[Annotated[dict[str, str], _refuse_headers_if(shape_problem)]]
    body: NotRequired[str]
    clear: NotRequired[bool]


class BroadcastAction(TypedDict):
    """A button that sends an Android broadcast."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]
    action: Literal["broadcast"]
    label: Line
    intent: NotRequired[str]
    extras: NotRequired[dict[str, str]]
    clear: NotRequired[bool]


def _known_action(button: Any) -> Any:
    """Check the action before Pydantic does, whose own message mentions tags and discriminators."""
    if isinstance(button, dict) and button.get("action") not in ("view", "http", "broadcast"):
        raise ValueError("choose its action: view, http or broadcast")
    return button


def _sendable(button: Any) -> Any:
    if button.get("body") and button.get("method") in ("GET", "HEAD"):
        raise ValueError(f"a request with {button['method']} has no body: leave one of them out")
    return button


Action = Annotated[
    ViewAction | HttpAction | BroadcastAction,
    Field(discriminator="action"),
    BeforeValidator(_known_action),
    AfterValidator(_sendable),
]


def place_problems(values: Mapping[str, Any]) -> list[str]:
    """List what is wrong with the place of a notification: it needs a topic or a channel."""
    if values.get("topic") and values.get("channel"):
        return ["channel: give a topic or a channel, not both"]
    return [] if values.get("topic") or values.get("channel") else ["topic: enter a topic or a channel."]


def template_problems(values: Mapping[str, Any]) -> list[str]:
    """List the unknown names of placeholders in the texts of a notification."""
    return [
        f"{field}: unknown name {{{{ {name} }}}}; use {', '.join(FACTS)}"
        for field in TEXTS
        for name in _unknown_names(values.get(field))
    ]


def _unknown_names(text: Any) -> Iterator[str]:
    names = ANY_PLACEHOLDER.findall(text) if isinstance(text, str) else []
    return (name for name in dict.fromkeys(names) if not _is_known(name))


def _is_known(name: str) -> bool:
    return name in FACTS or name.partition(".")[0] in _OPEN_NAMESPACES
