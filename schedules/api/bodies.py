"""Parsing of request bodies: JSON of limited depth, without duplicate names or text that cannot be stored."""

import json
import re
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from ninja.parser import Parser

from schedules.api.problems import ProblemError

MAX_DEPTH = 20
JSON_TYPES = ("application/json",)
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
        names = [name for name, _ in pairs]
        raise _DuplicateError(next(name for name in names if names.count(name) > 1))
    return values


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _too_deep() -> ProblemError:
    return ProblemError(400, "malformed", f"The body is nested too deeply: at most {MAX_DEPTH} levels.")


def _check(value: Any) -> None:
    """Refuse deep nesting and text that cannot be stored, without recursion."""
    level = [("", value)]
    for _ in range(MAX_DEPTH + 1):
        deeper: list[tuple[str, Any]] = []
        for path, each in level:
            match each:
                case str() if _UNSTORABLE.search(each):
                    why = "Remove the NUL character or the broken half of a surrogate pair."
                    raise ProblemError(422, "invalid", f"{path or 'body'}: {why}", errors=[(path, why)])
                case dict():
                    deeper += [(path, name) for name in each]
                    deeper += [(f"{path}.{name}".lstrip("."), item) for name, item in each.items()]
                case list():
                    deeper += [(f"{path}.{number}".lstrip("."), item) for number, item in enumerate(each)]
        if not deeper:
            return
        level = deeper
    raise _too_deep()
