"""Custom form fields: texts, whole numbers, JSON, and rows of names and values."""

import json
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.utils import flatatt

PAIRS_HINT = 'Enter a name and a value, or paste lines like "X-Api-Key: abc".'


class Whole(forms.IntegerField):
    """A whole number, with error messages that say what to enter."""

    default_error_messages = {
        "invalid": "Enter a whole number.",
        "min_value": "Enter %(limit_value)s or more.",
        "max_value": "Enter %(limit_value)s or less.",
    }

    def has_changed(self, initial: Any, data: Any) -> bool:
        # A parameter without a type may have stored a value that this field refuses.
        return str(initial) != str(data) and super().has_changed(initial, data)


class Text(forms.CharField):
    """A text in one line, or in several lines after `show_lines`."""

    def show_lines(self) -> None:
        """Use a text area, which keeps line breaks and blank lines."""
        attrs, is_required = self.widget.attrs, self.widget.is_required
        self.widget = forms.Textarea(attrs={**attrs, "rows": 3})
        self.widget.is_required = is_required
        self.strip = False

    def to_python(self, value: Any) -> str:
        return plain_lines(super().to_python(value) or "")

    def has_changed(self, initial: Any, data: Any) -> bool:
        return self.to_python(initial) != self.to_python(data)


def plain_lines(text: str) -> str:
    """Remove the carriage returns that browsers add to line breaks."""
    return text.replace("\r\n", "\n")


class Lines(forms.CharField):
    """A list of short texts, one per line."""

    widget = forms.Textarea(attrs={"rows": 3, "class": "mono", "spellcheck": "false"})

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(map(str, value)) if isinstance(value, list) else value

    def clean(self, value: Any) -> Any:
        lines = [line.strip() for line in plain_lines(super().clean(value)).split("\n")]
        return list(dict.fromkeys(filter(None, lines)))

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool((initial or []) != self.clean(data or ""))


class Commas(forms.CharField):
    """A list of short texts, separated by commas."""

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(map(str, value)) if isinstance(value, list) else value

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        return list(dict.fromkeys(tag.strip() for tag in text.split(",") if tag.strip()))

    def has_changed(self, initial: Any, data: Any) -> bool:
        # A text with a comma is read as several.
        return bool(self.clean(self.prepare_value(initial or [])) != self.clean(data or ""))


class Json(forms.CharField):
    """A text that must be JSON; after an error, the form shows it unchanged."""

    def __init__(self, *, expected_type: type | None = None, **kwargs: Any) -> None:
        super().__init__(
            widget=forms.Textarea(attrs={"rows": 3, "class": "mono", "spellcheck": "false"}), **kwargs
        )
        self.expected_type = expected_type

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        if not text:
            return None
        if problem := json_problem(text):
            raise ValidationError(f"This isn't valid JSON: {problem}")
        value = json.loads(text)
        if self.expected_type and not isinstance(value, self.expected_type):
            raise ValidationError(
                "Write a list in [ ]." if self.expected_type is list else "Write an object in { }."
            )
        return value


def json_problem(text: str) -> str:
    """Return what to correct in a text that is not JSON, or an empty text if it is."""
    try:
        json.loads(text)
    except RecursionError:
        return "it is nested too deeply."
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}"
        # Newer versions of Python report the position of the comma itself, older ones that of what follows.
        rest = text[error.pos :].lstrip(", \r\n\t")
        if rest[:1] in {"}", "]"} and "," in (
            text[: error.pos].rstrip()[-1:],
            text[error.pos : error.pos + 1],
        ):
            return f"remove the comma before {rest[0]} in {line}."
        if text[error.pos : error.pos + 1] == "'":
            return f"use double quotes in {line}."
        if error.pos >= len(text.rstrip()):
            return "it ends too early."
        return f"there is a mistake in {line}, column {error.colno}."
    except ValueError:
        return "a number in it has too many digits."
    return ""


def looks_like_json(text: str) -> bool:
    """Return whether a plain text was probably meant as JSON."""
    text = text.strip()
    return (text[:1], text[-1:]) in {("{", "}"), ("[", "]")}


class PairsInput(forms.Widget):
    """Rows of names and values; it also accepts a single text: JSON, or lines like "X-Api-Key: abc"."""

    template_name = "schedules/forms/pairs.html"
    blank_rows = 2

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        context = super().get_context(name, value, attrs)
        try:
            rows = read_pairs(value or "")
        except ValueError:
            rows = [(str(value), "")]
        aria = {key: text for key, text in context["widget"]["attrs"].items() if key.startswith("aria-")}
        context["widget"] |= {
            "rows": [*rows, *[("", "")] * self.blank_rows],
            "described": flatatt(aria),
        }
        return context

    def value_from_datadict(self, data: Mapping[str, Any], files: Any, name: str) -> Any:
        if f"{name}.name" not in data or not hasattr(data, "getlist"):
            return data.get(name)
        rows = zip_longest(data.getlist(f"{name}.name"), data.getlist(f"{name}.value"), fillvalue="")
        stripped = [[left.strip(), plain_lines(right).strip()] for left, right in rows]
        entered = [row for row in stripped if any(row)]
        return json.dumps(entered, ensure_ascii=False) if entered else ""

    def value_omitted_from_data(self, data: Mapping[str, Any], files: Any, name: str) -> bool:
        return name not in data and f"{name}.name" not in data


class Pairs(forms.CharField):
    """A table of texts, such as request headers; the value is the text that the widget reads."""

    widget = PairsInput

    def clean(self, value: Any) -> dict[str, str] | None:
        text = super().clean(value)
        try:
            rows = read_pairs(text)
        except ValueError as error:
            raise ValidationError(str(error)) from error
        names = [name for name, _ in rows]
        if "" in names:
            raise ValidationError("Enter a name for each value.")
        if duplicate := next((name for name in names if names.count(name) > 1), None):
            raise ValidationError(f"{duplicate} is there twice.")
        return dict(rows) or None

    def has_changed(self, initial: Any, data: Any) -> bool:
        return _stripped_rows(initial or "") != _stripped_rows(data or "")


def _stripped_rows(text: str) -> list[list[str]]:
    """Return the rows for a text, without spaces around the cells."""
    rows: Sequence[Sequence[str]]
    if text.startswith("[[") and not json_problem(text):
        rows = json.loads(text)
    else:
        try:
            rows = read_pairs(text)
        except ValueError:
            rows = [(text, "")]
    return [[str(cell).strip() for cell in row] for row in rows]


def read_pairs(text: str) -> list[tuple[str, str]]:
    """Parse rows, a JSON object, or lines of "name: value"; raises a ValueError that says what to enter."""
    text = text.strip()
    if text.startswith("[") and not json_problem(text):
        rows = json.loads(text)
        if not all(isinstance(row, list) and len(row) == 2 and {*map(type, row)} == {str} for row in rows):
            raise ValueError(PAIRS_HINT)
        return [pair for left, right in rows for pair in ([(left, right)] if right else _read_cell(left))]
    return _read_cell(text)


def _read_cell(text: str) -> list[tuple[str, str]]:
    if text.startswith("{"):
        if problem := json_problem(text):
            raise ValueError(f"This isn't valid JSON: {problem}")
        return [(name, as_text(value)) for name, value in json.loads(text).items()]
    rows = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, colon, value = line.partition(":")
        if not colon:
            raise ValueError(PAIRS_HINT)
        rows.append((name.strip(), value.strip()))
    return rows


def as_text(value: Any) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
