"""Parse YAML into a tree of values with their places in the file, so that every error has a line and a column.

Only what JSON has is accepted: no anchors, aliases, tags or several documents, so that no text expands while it is read.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import yaml

from schedules.result import Err

MAX_BYTES = 20_000_000
MAX_LEVELS = 20
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Values without quotes that are not text. `on`, `no` and 8:30 are text here, though not in YAML 1.1.
_NULL = re.compile(r"~|null|Null|NULL|")
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,30})")
_FLOAT = re.compile(r"[-+]?(?:[0-9]{1,30}\.[0-9]{0,30}|\.[0-9]{1,30})(?:[eE][-+][0-9]{1,3})?")

Value: TypeAlias = "Any"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A position in a file; lines and columns count from one."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong at a place of a file."""

    place: Place
    text: str
    """The message of a parser, or the name of the job that the error is about."""
    error: Err | None = None
    """Why the services refuse the job."""

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


class DocumentError(Exception):
    """A file that cannot be read as YAML."""

    def __init__(self, place: Place, message: str) -> None:
        super().__init__(f"{place}: {message}")
        self.problem = Problem(place, message)


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its place; a mapping also has the places of its keys."""

    place: Place
    value: Value
    """A scalar, a list of nodes, or a dictionary of nodes by text."""
    keys: dict[str, Place] | None = None

    def plain(self) -> Any:
        """Return the value without places, as JSON has it."""
        match self.value:
            case dict():
                return {key: node.plain() for key, node in self.value.items()}
            case list():
                return [node.plain() for node in self.value]
            case value:
                return value


def parse_document(text: str, file: str) -> Node | None:
    """Read one YAML document; return None for an empty one, and raise DocumentError for anything else."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise DocumentError(Place(file, 1, 1), f"the file is larger than {MAX_BYTES:,} bytes: split it")
    builder = _Builder(file)
    try:
        return builder.document(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(file, mark.line + 1, mark.column + 1) if mark else Place(file, 1, 1)
        raise DocumentError(place, f"this is not YAML: {error.problem or error.context}") from error
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        place = Place(file, before.count("\n") + 1, error.position - before.rfind("\n"))
        raise DocumentError(place, "this character is not allowed in YAML") from error


class _Builder:
    """Builds the tree of one file from the parser's events."""

    def __init__(self, file: str) -> None:
        self._file = file

    def document(self, events: Iterator[Any]) -> Node | None:
        root: Node | None = None
        for event in events:
            match event:
                case yaml.StreamStartEvent() | yaml.StreamEndEvent() | yaml.DocumentEndEvent():
                    continue
                case yaml.DocumentStartEvent() if root is not None:
                    raise self._error(event, "write one document per file, without ---")
                case yaml.DocumentStartEvent():
                    continue
                case _:
                    root = self._node(event, events, 1)
        return None if root is None or root.value is None else root

    def _node(self, event: Any, events: Iterator[Any], level: int) -> Node:
        self._refuse_extras(event)
        if level > MAX_LEVELS:
            raise self._error(event, f"nested too deeply: at most {MAX_LEVELS} levels")
        place = self._place(event)
        match event:
            case yaml.ScalarEvent():
                return Node(place, event.value if event.style else _plain_value(event.value))
            case yaml.SequenceStartEvent():
                items = []
                while not isinstance(event := next(events), yaml.SequenceEndEvent):
                    items.append(self._node(event, events, level + 1))
                return Node(place, items)
        return self._mapping(place, events, level)

    def _mapping(self, place: Place, events: Iterator[Any], level: int) -> Node:
        values: dict[str, Node] = {}
        keys: dict[str, Place] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            self._refuse_extras(event)
            if not isinstance(event, yaml.ScalarEvent):
                raise self._error(event, "a key must be a text")
            key = event.value
            if key in values:
                raise self._error(event, f"{key!r} is given twice; the first is in line {keys[key].line}")
            keys[key] = self._place(event)
            values[key] = self._node(next(events), events, level + 1)
        return Node(place, values, keys)

    def _refuse_extras(self, event: Any) -> None:
        if isinstance(event, yaml.AliasEvent):
            raise self._error(event, f"aliases (*{event.anchor}) are not read: write the value again")
        if event.anchor is not None:
            raise self._error(
                event, f"anchors (&{event.anchor}) are not read: write the value where it is used"
            )
        if event.tag is not None:
            raise self._error(event, f"tags ({event.tag}) are not read")

    def _place(self, event: Any) -> Place:
        return Place(self._file, event.start_mark.line + 1, event.start_mark.column + 1)

    def _error(self, event: Any, message: str) -> DocumentError:
        return DocumentError(self._place(event), message)


def _plain_value(text: str) -> Any:
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return None if _NULL.fullmatch(text) else text
