"""Parsing of request bodies: JSON of limited depth, without duplicate names or text that cannot be stored."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

from django.conf import settings
from django.http import HttpRequest
from ninja.parser import Parser

from schedules.api.problems import ProblemError

MAX_DEPTH = 20
JSON_TYPES = ("application/json",)
# The place of a value: the place around it, and its name or number there.
_Place: TypeAlias = tuple[()] | tuple[Any, str | int]
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class BodyParser(Parser):
    """Reads JSON as in RFC 8259, and refuses what parsers interpret differently."""

    def parse_body(self, request: HttpRequest) -> Any:
        if request.content_type not in JSON_TYPES:
            raise ProblemError(
                415, "unsupported_media_type", "Send the body as JSON, with Content-Type: application/json."
            )
        body = request.body
        if len(body) > settings.CRONTY_MCP_BODY_BYTES:
            raise too_large()
        try:
            value = json.loads(
                body.decode(), object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant
            )
        except RecursionError:
            raise _too_deep() from None
        except (ValueError, UnicodeDecodeError) as error:
            if isinstance(error, _DuplicateError):
                raise ProblemError(400, "malformed", str(error), errors=[(error.name, str(error))]) from error
            raise ProblemError(400, "malformed", f"The body is not valid JSON: {error}.") from error
        if value is None:
            raise ProblemError(
                422,
                "invalid",
                "body: send an object, not null",
                errors=[("body", "Send an object, not null.")],
            )
        _check(value)
        return value


def too_large() -> ProblemError:
    return ProblemError(
        413, "too_large", f"The request is too large: at most {settings.CRONTY_MCP_BODY_BYTES} bytes."
    )


class _DuplicateError(ValueError):
    def __init__(self, name: str) -> None:
        super().__init__(f"The name {name[:70]!r} occurs twice in one object.")
        self.name = name[:70]


def _without_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise _DuplicateError(next(name for name, count in counts.items() if count > 1))
    return values


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _too_deep() -> ProblemError:
    return ProblemError(400, "malformed", f"The body is nested too deeply: at most {MAX_DEPTH} levels.")


def _check(value: Any) -> None:
    """Refuse deep nesting and text that cannot be stored, without recursion."""
    # Places are pairs of the place around it and a name: written out, long names would be copied for every value.
    level: list[tuple[_Place, Any]] = [((), value)]
    for _ in range(MAX_DEPTH + 1):
        deeper: list[tuple[_Place, Any]] = []
        for place, each in level:
            match each:
                case str() if _UNSTORABLE.search(each):
                    path = _path(place)
                    why = "Remove the NUL character or the broken half of a surrogate pair."
                    raise ProblemError(422, "invalid", f"{path or 'body'}: {why}", errors=[(path, why)])
                case dict():
                    deeper += [(place, name) for name in each]
                    deeper += [((place, name), item) for name, item in each.items()]
                case list():
                    deeper += [((place, number), item) for number, item in enumerate(each)]
        if not deeper:
            return
        level = deeper
    raise _too_deep()


def _path(place: _Place) -> str:
    names: list[str] = []
    while place:
        place, name = place
        names.append(str(name))
    return ".".join(reversed(names))
