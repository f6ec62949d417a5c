"""The searchable and visible texts of a job: its arguments by name, masked, and the stored text for searches."""

# ruff: noqa: RUF001

import re
import unicodedata
from collections.abc import Iterator, Mapping
from inspect import Parameter
from typing import Any

from schedules import limits
from schedules.secrets import masking
from schedules.secrets.masking import MASK
from schedules.tasks import registry

_COLUMNS = ("name", "label", "cron", "task", "made_by")
# Marks tags; it occurs in no other text, so that one column serves searches for words and for whole tags.
_BEFORE_TAG = "\t"
# Characters that look alike, in lower case, because names are compared in lower case.
_ALIKE = {
    "a": "аαɑ",
    "b": "вβь",
    "c": "сϲ",
    "d": "ԁ",
    "e": "еєεҽ",
    "g": "ɡց",
    "h": "нһηհ",
    "j": "јϳ",
    "k": "кκ",
    "l": "1i|ıіιӏ",
    "m": "мμ",
    "n": "νոп",
    "o": "0оοօ",
    "p": "рρ",
    "q": "ԛգ",
    "s": "ѕ",
    "t": "тτ",
    "u": "սυ",
    "w": "ԝω",
    "x": "хχ",
    "y": "уүγ",
    "z": "ζ",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2212",
    "'": "\u2018\u2019\u02bc`´",
}
# Joiners and selectors that a name may contain.
_INVISIBLE = re.compile("[\u200c\u200d\ufe0e\ufe0f\u180b-\u180f]")
_LETTERS = str.maketrans({other: letter for letter, others in _ALIKE.items() for other in others})


def shown_arguments(job: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a job with passwords and the like masked, also in positional arguments."""
    names = names_of(job.task, job.args)
    shown = masking.masked(named_arguments(job.task, job.args, job.kwargs))
    return [shown[name] for name in names], {name: shown[name] for name in job.kwargs}


def named_arguments(task: str, args: list[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a task by name, including positional ones."""
    return dict(zip(names_of(task, args), args, strict=True)) | dict(kwargs)


def names_of(task: str, args: list[Any]) -> list[str]:
    """Return the names of positional arguments."""
    if not args:
        return []
    registered = registry.get(task)
    parameters = registered.signature.parameters.values() if registered else ()
    kinds = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    named = [each.name for each in parameters if each.kind in kinds]
    # The rest are named after a parameter like `*tokens`, whose name tells whether they are secret.
    rest = next((each.name for each in parameters if each.kind is Parameter.VAR_POSITIONAL), "args")
    return [*named, *(f"{rest}.{number}" for number in range(len(args)))][: len(args)]


def searchable_text(job: Any) -> str:
    """Return everything that people see of a job except its id and last error, one text or tag per line."""
    arguments = list(shown_arguments(job))
    texts = [normalized(text) for text in (*(getattr(job, name) for name in _COLUMNS), *_texts_in(arguments))]
    tags = [_tag_line(str(tag)) for tag in _tags_of(job)]
    return "\n".join(filter(None, [*texts, *tags])) + "\n"


def normalized(text: str) -> str:
    """Return a text in lower case, without invisible characters, and with single spaces."""
    visible = limits.strip_unprintable(unicodedata.normalize("NFKC", text))
    return " ".join(visible.casefold().split())


def tag_in_text(tag: str) -> str:
    """Return the string that the text of a job contains if and only if it has this tag."""
    return f"{_tag_line(tag)}\n"


def _tag_line(tag: str) -> str:
    return f"{_BEFORE_TAG}{normalized(tag)}"


def _tags_of(job: Any) -> Iterator[Any]:
    yield from job.tags
    # A notification has its own tags, which people do not distinguish from those of its job.
    if job.task == "notify" and isinstance(tags := job.kwargs.get("tags"), list):
        yield from tags


def _texts_in(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for item in value.values():
                yield from _texts_in(item)
        case list():
            for item in value:
                yield from _texts_in(item)
        case str() if value != MASK:
            yield value
        case bool():
            return
        case int() | float():
            yield str(value)


def skeleton(name: str) -> str:
    """Reduce a name to what it looks like: names with equal skeletons are easily confused."""
    visible = _INVISIBLE.sub("", unicodedata.normalize("NFKC", limits.strip_unprintable(name)))
    plain = " ".join(visible.casefold().translate(_LETTERS).split())
    return plain.replace("rn", "m").replace("vv", "w")[: limits.NAME_LENGTH]
