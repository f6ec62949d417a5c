"""The form field of one argument of a task, built from its JSON schema, and how it is formatted and parsed."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from inspect import Parameter
from typing import Any

from django import forms
from pydantic import TypeAdapter, ValidationError

from schedules.tasks.forms.fields import Json, Pairs, Text, Whole, as_text
from schedules.tasks.registry import Task

LONG_TEXTS = {"message", "prompt", "body"}
OBJECT_HINT = 'A JSON object, like {"key": "value"}.'
LABELS = {
    "url": "URL",
    "click": "Open this link when tapped",
    "icon": "Icon (URL)",
    "attach": "Attach a file from (URL)",
    "filename": "File name",
    "markdown": "Format as Markdown",
    "actions": "Buttons",
}
# The fields of the built-in tasks, in the words of the page; agents have texts of their own.
NOTIFY_LABELS = {"tags": "Emojis"}
HINTS = {
    ("notify", "topic"): "Up to 64 letters, digits, - or _",
    ("notify", "priority"): "",
    ("notify", "tags"): "Short codes like warning or tada, separated by commas",
    ("notify", "actions"): "Up to three, as a JSON list",
    ("webhook", "body"): "Valid JSON is sent as JSON, anything else as plain text",
    ("webhook", "headers"): "One name and value a row; ${secret:NAME} stands for one of your secrets",
}
ABSENT = object()
PRIORITIES = [("", "Default"), (1, "Min"), (2, "Low"), (4, "High"), (5, "Urgent")]


def label_of(name: str) -> str:
    """Return what a person calls an argument."""
    return LABELS.get(name, name.replace("_", " ").capitalize())


@dataclass(frozen=True)
class Argument:
    """One argument of a task: its form field, and how its value is formatted and parsed."""

    name: str
    key: str
    field: forms.Field
    read: Callable[[Any], Any] = lambda value: value
    write: Callable[[Any], Any] = lambda value: value
    empty: tuple[Any, ...] = (None, "")
    cleared: Any = ABSENT
    """What an empty field means; the argument is left out if this is ABSENT."""


def resolved(spec: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Replace references to definitions, like those of enums, in a type and in the members of a union."""

    def looked_up(each: Mapping[str, Any]) -> dict[str, Any]:
        name = each.get("$ref", "").removeprefix("#/$defs/")
        return {**schema.get("$defs", {}).get(name, {}), **each}

    found = looked_up(spec)
    return found | {"anyOf": [looked_up(each) for each in found["anyOf"]]} if "anyOf" in found else found


def is_public(field: forms.Field, value: Any) -> bool:
    """Return whether a value is no secret, whatever its name: a choice, a number or a ticked box."""
    takes_numbers = isinstance(field, (forms.BooleanField, forms.IntegerField))
    return isinstance(field, forms.ChoiceField) or (takes_numbers and isinstance(value, (int, float)))


def argument_of(task: Task, name: str, spec: Mapping[str, Any], *, is_required: bool) -> Argument:
    argument = _typed_argument(task, name, spec, is_required=is_required)
    default = spec.get("default")
    if default is None:
        return argument
    argument.field.initial = argument.write(default)
    if isinstance(argument.field, Text) and "\n" in argument.field.initial:
        argument.field.show_lines()
    return argument if default in ("", [], {}) else replace(argument, cleared=_cleared(task, name))


def _cleared(task: Task, name: str) -> Any:
    """Return what an empty field means if the default is not empty, or ABSENT if the type accepts nothing empty."""
    empty: tuple[Any, ...] = (None, "", [], {})
    return next((value for value in empty if _accepts(task, name, value)), ABSENT)


def _accepts(task: Task, name: str, value: Any) -> bool:
    try:
        task.adapter.validate_json(json.dumps({name: value}), strict=True)
    except ValidationError as error:
        return all(name not in problem["loc"][:1] for problem in error.errors())
    return True


def _typed_argument(task: Task, name: str, spec: Mapping[str, Any], *, is_required: bool) -> Argument:
    members = spec.get("anyOf", [spec])
    shapes = [each for each in members if each.get("type") != "null"] or [spec]
    shape = shapes[0]
    described = spec.get("description") or shape.get("description", "")
    common: dict[str, Any] = {
        "label": NOTIFY_LABELS.get(name, label_of(name)) if task.name == "notify" else label_of(name),
        "required": is_required,
        "help_text": HINTS.get((task.name, name), described),
    }
    key = f"{task.name}-{name}"
    if (task.name, name) == ("notify", "priority"):
        field = forms.TypedChoiceField(
            choices=PRIORITIES,
            coerce=int,
            empty_value=None,
            error_messages={"invalid_choice": "Choose one of these."},
            **common,
        )
        # The default is stored as 3, too.
        return Argument(name, key, field, write=lambda value: "" if value == 3 else value)
    if len(shapes) > 1:
        # A name in the schema that is an alias has no parameter.
        hint = task.signature.parameters[name].annotation if name in task.signature.parameters else Any
        return Argument(
            name, key, _text_field(name, common), read=lambda text: _read_as(hint, text), write=as_text
        )
    if choices := shape.get("enum") or ([shape["const"]] if "const" in shape else None):
        empty = [] if spec.get("default") in choices and len(members) == 1 else [("", "—")]
        options = [*empty, *((choice, choice) for choice in choices)]
        values = {str(choice): choice for choice in choices}
        choice_field = forms.ChoiceField(choices=options, **common)
        return Argument(name, key, choice_field, read=lambda text: values.get(text, text), write=str)
    match shape.get("type"):
        case "boolean":
            # An unticked box means False, which is left out only if it is the default anyway.
            empty_box = () if is_required or spec.get("default") else (False,)
            return Argument(name, key, forms.BooleanField(**common), empty=empty_box)
        case "integer":
            bounds: dict[str, Any] = {"min_value": shape.get("minimum"), "max_value": shape.get("maximum")}
            return Argument(name, key, Whole(**common, **bounds))
        case "number":
            return Argument(name, key, forms.FloatField(**common))
        case "string":
            return Argument(name, key, _text_field(name, common))
        case "array" if shape.get("items", {}).get("type") == "string":
            common["help_text"] = common["help_text"] or "Separate with commas."
            return Argument(name, key, forms.CharField(**common), read=_split, write=_listed)
        case None:
            text = _text_field(name, common)
            text.widget.attrs["data-json-hint"] = True
            default = spec.get("default")
            return Argument(name, key, text, read=lambda text: _read_any(text, default), write=as_text)
        case "object" if (shape.get("additionalProperties") or {}) == {"type": "string"}:
            return Argument(name, key, Pairs(**common), write=as_text)
    if shape.get("type") == "object":
        common["help_text"] = common["help_text"] or OBJECT_HINT
        return Argument(name, key, _json_field(common, dict), write=as_text)
    return Argument(name, key, _json_field(common), write=as_text)


def rest_of(task: Task, parameter: Parameter) -> Argument:
    is_list = parameter.kind is parameter.VAR_POSITIONAL
    common = {
        "label": label_of(parameter.name),
        "required": False,
        "help_text": "A JSON list, like [1, 2]." if is_list else OBJECT_HINT,
    }
    wanted = list if is_list else dict
    field = _json_field(common, wanted)
    return Argument(parameter.name, f"{task.name}-{'*' if is_list else '**'}", field, write=as_text)


def _text_field(name: str, common: dict[str, Any]) -> Text:
    field = Text(**common)
    if name in LONG_TEXTS:
        field.show_lines()
    return field


def _json_field(common: dict[str, Any], wanted: type | None = None) -> Json:
    common["help_text"] = common["help_text"] or "JSON"
    return Json(wanted=wanted, **common)


def _split(text: str) -> Any:
    """Return the texts between commas, or the list that is written as JSON."""
    if text.lstrip().startswith("[") and isinstance(parsed := _json_or_text(text), list):
        return parsed
    return [part.strip() for part in text.split(",") if part.strip()]


def _listed(value: Any) -> str:
    """Return a list with commas, or as JSON if it would be read back in another way."""
    is_plain = isinstance(value, list) and all(isinstance(each, str) for each in value)
    text = ", ".join(value) if is_plain else ""
    return text if is_plain and "\n" not in text and _split(text) == value else as_text(value)


def _json_or_text(text: str) -> Any:
    """Parse an object or a list as JSON; return anything else as text."""
    if text.lstrip()[:1] in {"{", "["}:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text


def _read_any(text: str, default: Any) -> Any:
    """Parse an object or a list as JSON; return anything else as text, but the default as it is."""
    return default if text == as_text(default) else _json_or_text(text)


def _read_as(hint: Any, text: str) -> Any:
    """Parse a text as JSON if a union accepts that, unless the text itself stands for another type, like Decimal."""
    accepted = TypeAdapter(hint)
    try:
        if not isinstance(accepted.validate_json(json.dumps(text), strict=True), str):
            return text
    except ValidationError:
        pass
    try:
        accepted.validate_json(text, strict=True)
        return json.loads(text)
    except ValueError:
        return text
