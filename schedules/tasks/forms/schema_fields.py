"""The form field of one argument of a task, built from its JSON schema, with conversions to and from its text."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from inspect import Parameter
from typing import Any

from django import forms
from pydantic import TypeAdapter, ValidationError

from schedules.tasks.argument_types import Shown, shown_of
from schedules.tasks.forms.fields import Json, Pairs, Text, Whole, as_text
from schedules.tasks.links import public_site
from schedules.tasks.registry import Task

LONG_TEXTS = {"message", "prompt", "body"}
OBJECT_HINT = 'A JSON object, like {"key": "value"}.'
NO_BUTTONS = (
    ". Messages have no buttons here, because phones cannot reach CRONTY_URL: answer on the page of the job"
)
ABSENT = object()
PRIORITIES = [("", "Default"), (1, "Min"), (2, "Low"), (4, "High"), (5, "Urgent")]


def shown(task: Task | None, name: str) -> Shown:
    """Return how forms show an argument of a task."""
    parameter = task.signature.parameters.get(name) if task else None
    return shown_of(parameter.annotation) if parameter else Shown()


def label_of(task: Task | None, name: str) -> str:
    """Return the label of an argument."""
    return shown(task, name).label or ("URL" if name == "url" else name.replace("_", " ").capitalize())


@dataclass(frozen=True)
class Argument:
    """One argument of a task: its form field, and the conversions between its value and the field's."""

    name: str
    key: str
    field: forms.Field
    read: Callable[[Any], Any] = lambda value: value
    write: Callable[[Any], Any] = lambda value: value
    empty: tuple[Any, ...] = (None, "")
    cleared: Any = ABSENT
    """The value of an empty field; if it is ABSENT, the argument is left out."""

    def is_public(self, value: Any) -> bool:
        """Return whether a value cannot be a secret, whatever its name: a choice, a number or a checkbox."""
        takes_numbers = isinstance(self.field, (forms.BooleanField, forms.IntegerField))
        is_number = takes_numbers and isinstance(value, (int, float))
        return is_number or isinstance(self.field, forms.ChoiceField)


@dataclass(frozen=True)
class Schema:
    """The JSON schema of one parameter of a task, without references."""

    task: Task
    name: str
    spec: Mapping[str, Any]
    is_required: bool

    @property
    def types(self) -> list[Mapping[str, Any]]:
        """The schemas of the types that a value may have, except null."""
        members = [each for each in self.spec.get("anyOf", [self.spec]) if each.get("type") != "null"]
        return members or [self.spec]

    @property
    def default(self) -> Any:
        return self.spec.get("default")

    def options(self, hint: str = "") -> dict[str, Any]:
        """Return the common arguments of form fields; `hint` is the help text if there is no other."""
        description = shown(self.task, self.name).hint
        if description is None:
            description = self.spec.get("description") or self.types[0].get("description", "")
        return {
            "label": label_of(self.task, self.name),
            "required": self.is_required,
            "help_text": (description or hint) + self._caveat(),
        }

    def _caveat(self) -> str:
        """Return a warning if the installation lacks what this argument needs."""
        return NO_BUTTONS if (self.task.name, self.name) == ("notify", "ask") and not public_site() else ""

    def argument(self, field: forms.Field, **conversions: Any) -> Argument:
        return Argument(self.name, f"{self.task.name}-{self.name}", field, **conversions)


def argument_of(task: Task, name: str, spec: Mapping[str, Any], *, is_required: bool) -> Argument:
    """Return the argument for a parameter of a task."""
    parameter = Schema(task, name, _without_references(spec, task.schema), is_required)
    argument = _builder_for(parameter)(parameter)
    default = parameter.default
    if default is None:
        return argument
    argument.field.initial = argument.write(default)
    if isinstance(argument.field, Text) and "\n" in argument.field.initial:
        argument.field.show_lines()
    return argument if default in ("", [], {}) else replace(argument, cleared=_cleared(task, name))


def rest_of(task: Task, parameter: Parameter) -> Argument:
    """Return the argument for a task's `*args` or `**kwargs`."""
    is_list = parameter.kind is parameter.VAR_POSITIONAL
    field = Json(
        expected_type=list if is_list else dict,
        label=label_of(task, parameter.name),
        required=False,
        help_text="A JSON list, like [1, 2]." if is_list else OBJECT_HINT,
    )
    return Argument(parameter.name, f"{task.name}-{'*' if is_list else '**'}", field, write=as_text)


def _without_references(spec: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Replace references to definitions, like those of enums, in a type and in the members of a union."""

    def resolve(part: Mapping[str, Any]) -> dict[str, Any]:
        name = part.get("$ref", "").removeprefix("#/$defs/")
        return {**schema.get("$defs", {}).get(name, {}), **part}

    resolved = resolve(spec)
    if "anyOf" in resolved:
        resolved["anyOf"] = [resolve(member) for member in resolved["anyOf"]]
    return resolved


def _builder_for(parameter: Schema) -> Callable[[Schema], Argument]:
    if (parameter.task.name, parameter.name) == ("notify", "priority"):
        return _priority
    first, *others = parameter.types
    if others:
        return _union
    if "enum" in first or "const" in first:
        return _choice
    return BUILDERS.get(first.get("type"), _json)


def _priority(parameter: Schema) -> Argument:
    field = forms.TypedChoiceField(
        choices=PRIORITIES,
        coerce=int,
        empty_value=None,
        error_messages={"invalid_choice": "Choose one of these."},
        **parameter.options(),
    )
    # The default may also be stored as 3.
    return parameter.argument(field, write=lambda value: "" if value == 3 else value)


def _union(parameter: Schema) -> Argument:
    # An alias in the schema is not the name of a parameter.
    declared = parameter.task.signature.parameters.get(parameter.name)
    hint = declared.annotation if declared else Any
    return parameter.argument(_text_field(parameter), read=lambda text: _read_as(hint, text), write=as_text)


def _choice(parameter: Schema) -> Argument:
    first = parameter.types[0]
    choices = first.get("enum") or [first["const"]]
    has_default = parameter.default in choices and "anyOf" not in parameter.spec
    options = [*([] if has_default else [("", "—")]), *((choice, choice) for choice in choices)]
    values = {str(choice): choice for choice in choices}
    field = forms.ChoiceField(choices=options, **parameter.options())
    return parameter.argument(field, read=lambda text: values.get(text, text), write=str)


def _checkbox(parameter: Schema) -> Argument:
    # An unchecked box means False, which is left out only if it is the default.
    empty = () if parameter.is_required or parameter.default else (False,)
    return parameter.argument(forms.BooleanField(**parameter.options()), empty=empty)


def _whole(parameter: Schema) -> Argument:
    first = parameter.types[0]
    bounds: dict[str, Any] = {"min_value": first.get("minimum"), "max_value": first.get("maximum")}
    return parameter.argument(Whole(**parameter.options(), **bounds))


def _number(parameter: Schema) -> Argument:
    return parameter.argument(forms.FloatField(**parameter.options()))


def _text(parameter: Schema) -> Argument:
    return parameter.argument(_text_field(parameter))


def _any(parameter: Schema) -> Argument:
    field = _text_field(parameter)
    field.widget.attrs["data-json-hint"] = True
    return parameter.argument(field, read=lambda text: _read_any(text, parameter.default), write=as_text)


def _list(parameter: Schema) -> Argument:
    if parameter.types[0].get("items", {}).get("type") != "string":
        return _json(parameter)
    field = forms.CharField(**parameter.options("Separate with commas."))
    return parameter.argument(field, read=_split, write=_listed)


def _object(parameter: Schema) -> Argument:
    if parameter.types[0].get("additionalProperties") == {"type": "string"}:
        return parameter.argument(Pairs(**parameter.options()), write=as_text)
    field = Json(expected_type=dict, **parameter.options(OBJECT_HINT))
    return parameter.argument(field, write=as_text)


def _json(parameter: Schema) -> Argument:
    return parameter.argument(Json(**parameter.options("JSON")), write=as_text)


# By the type in the schema; there is none if any value is accepted.
BUILDERS: dict[str | None, Callable[[Schema], Argument]] = {
    "boolean": _checkbox,
    "integer": _whole,
    "number": _number,
    "string": _text,
    "array": _list,
    "object": _object,
    None: _any,
}


def _text_field(parameter: Schema) -> Text:
    field = Text(**parameter.options())
    if parameter.name in LONG_TEXTS:
        field.show_lines()
    return field


def _cleared(task: Task, name: str) -> Any:
    """Return the value of an empty field whose default is not empty, or ABSENT if the type accepts no empty value."""
    empty: tuple[Any, ...] = (None, "", [], {})
    return next((value for value in empty if _accepts(task, name, value)), ABSENT)


def _accepts(task: Task, name: str, value: Any) -> bool:
    try:
        task.adapter.validate_json(json.dumps({name: value}), strict=True)
    except ValidationError as error:
        return all(name not in problem["loc"][:1] for problem in error.errors())
    return True


def _split(text: str) -> Any:
    """Split a text at commas, or parse it if it is a JSON list."""
    if text.lstrip().startswith("[") and isinstance(parsed := _json_or_text(text), list):
        return parsed
    return [part.strip() for part in text.split(",") if part.strip()]


def _listed(value: Any) -> str:
    """Join a list with commas, or write it as JSON if splitting would not restore it."""
    is_plain = isinstance(value, list) and all(isinstance(item, str) for item in value)
    text = ", ".join(value) if is_plain else ""
    return text if is_plain and "\n" not in text and _split(text) == value else as_text(value)


def _json_or_text(text: str) -> Any:
    """Parse a JSON object or list; return anything else as text."""
    if text.lstrip()[:1] in {"{", "["}:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text


def _read_any(text: str, default: Any) -> Any:
    """Parse a JSON object or list, and return the default if its text is unchanged; return anything else as text."""
    return default if text == as_text(default) else _json_or_text(text)


def _read_as(hint: Any, text: str) -> Any:
    """Parse a text as JSON if the union accepts the result, unless the text itself stands for a type like Decimal."""
    adapter = TypeAdapter(hint)
    try:
        if not isinstance(adapter.validate_json(json.dumps(text), strict=True), str):
            return text
    except ValidationError:
        pass
    try:
        adapter.validate_json(text, strict=True)
        return json.loads(text)
    except ValueError:
        return text
