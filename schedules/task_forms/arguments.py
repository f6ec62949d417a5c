"""Form fields for the arguments of a task, built from its JSON schema."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter
from typing import Any

from django import forms
from django.conf import settings
from pydantic import TypeAdapter, ValidationError

from schedules import limits
from schedules.result import Err
from schedules.task_forms.fields import Json, Pairs, Text, Whole, json_problem, looks_like_json
from schedules.tasks.registry import Task

LONG_TEXTS = {"message", "prompt", "body"}
# How many optional arguments are always visible; of a notification none, which keeps the first form short.
INLINE_OPTIONS = {"notify": 0}
MOST_INLINE_OPTIONS = 3
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
    ("webhook", "headers"): "One name and value a row",
}
DESCRIPTIONS = {
    "notify": "Send a push notification to an ntfy topic.",
    "webhook": "Call a URL. Requests are signed; retries share one Idempotency-Key.",
    "prompt": "Give a prompt to your agent when it's due.",
}
# What can be stored for a cleared field, by the type of its argument.
EMPTY: dict[Any, Callable[[], Any]] = {"string": str, "array": list, "object": dict}
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


class Arguments:
    """Converts the arguments of one task to form fields and back."""

    def __init__(self, task: Task) -> None:
        self.task = task
        schema = task.schema
        self.named = [
            _argument(task, name, _resolved(spec, schema), is_required=name in schema.get("required", ()))
            for name, spec in schema["properties"].items()
        ]
        self.rest = [
            _rest(task, parameter)
            for parameter in task.signature.parameters.values()
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        ]

    @property
    def description(self) -> str:
        return DESCRIPTIONS.get(self.task.name) or self.task.description.strip().partition("\n")[0]

    @property
    def all(self) -> list[Argument]:
        return [*self.named, *self.rest]

    @property
    def inline(self) -> list[Argument]:
        """The arguments that are always visible: required ones, and the first optional ones."""
        needed = [argument for argument in self.named if argument.field.widget.is_required]
        options = [argument for argument in self.named if argument not in needed]
        return needed + options[: INLINE_OPTIONS.get(self.task.name, MOST_INLINE_OPTIONS)] + self.rest

    @property
    def folded(self) -> list[Argument]:
        return [argument for argument in self.all if argument not in self.inline]

    def fields(self) -> dict[str, forms.Field]:
        """Return the fields; none is required, because only one task is chosen.

        Their widgets still have `is_required`, so that the page can mark required fields.
        """
        for argument in self.all:
            argument.field.required = False
        return {argument.key: argument.field for argument in self.all}

    def stored(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return stored arguments by the key of their field, with secrets masked; positional ones by name."""
        try:
            bound = self.task.signature.bind_partial(*args).arguments
        except TypeError:
            # The task has changed since, and takes fewer of them.
            bound = {}
        values = {name: list(value) if isinstance(value, tuple) else value for name, value in bound.items()}
        values |= kwargs
        masked: dict[str, Any] = limits.masked(values)
        found = {
            argument.key: values[argument.name]
            if _is_public(argument.field, values[argument.name])
            else masked[argument.name]
            for argument in self.named
            if argument.name in values
        }
        known = {argument.name for argument in self.named}
        more = {name: masked[name] for name in kwargs if name not in known}
        for argument in self.rest:
            if value := more if argument.key.endswith("**") else masked.get(argument.name):
                found[argument.key] = value
        return found

    def initial(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the form values of stored arguments, with secrets masked; positional ones are shown by name."""
        stored = self.stored(args, kwargs)
        return {
            argument.key: None if stored[argument.key] is None else argument.write(stored[argument.key])
            for argument in self.all
            if argument.key in stored
        }

    def is_changed(self, form: forms.BaseForm) -> bool:
        """Return whether the task or one of its arguments was changed."""
        return not {"task", *(argument.key for argument in self.all)}.isdisjoint(form.changed_data)

    def collect(
        self, form: forms.BaseForm, stored: Mapping[str, Any] | None
    ) -> tuple[list[Any], dict[str, Any]] | None:
        """Convert the input of a form to (args, kwargs), or return None if a field has an error.

        A field that was not sent, or not changed from what is stored, keeps what is stored, and causes no error.
        """
        untouched = self._untouched(form, stored)
        for key in untouched:
            form.errors.pop(key, None)
        if any(argument.key in form.errors for argument in self.all):
            return None
        values = {key: value for key, value in (stored or {}).items() if key in untouched}
        for argument in self.all:
            if argument.key not in untouched:
                typed = form.cleaned_data.get(argument.key)
                value = argument.cleared if typed in argument.empty else argument.read(typed)
                if value is not ABSENT:
                    values[argument.key] = value
        return self._called_with(values)

    def _untouched(self, form: forms.BaseForm, stored: Mapping[str, Any] | None) -> set[str]:
        changed = form.changed_data
        return {
            argument.key
            for argument in self.all
            if (stored is not None and argument.key not in changed)
            or form.fields[argument.key].widget.value_omitted_from_data(
                form.data, form.files, form.add_prefix(argument.key)
            )
        }

    def _called_with(self, values: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return (args, kwargs): by position only what cannot be given by name."""
        rest = values.get(f"{self.task.name}-*", [])
        kwargs = {
            argument.name: values[argument.key] for argument in self.named if argument.key in values
        } | values.get(f"{self.task.name}-**", {})
        by_position = [
            parameter
            for parameter in self.task.signature.parameters.values()
            if parameter.kind is parameter.POSITIONAL_ONLY
            or (rest and parameter.kind is parameter.POSITIONAL_OR_KEYWORD)
        ]
        while by_position and not rest and by_position[-1].name not in kwargs:
            by_position.pop()
        args: list[Any] = []
        for parameter in by_position:
            value = kwargs.pop(parameter.name, parameter.default)
            if value is parameter.empty:
                # The check reports that it is missing.
                return args, kwargs
            args.append(value)
        return [*args, *rest], kwargs

    def fit(self, fields: Mapping[str, forms.Field], shown: Mapping[str, Any]) -> None:
        """Show stored texts with line breaks in fields that keep them."""
        for argument in self.named:
            field = fields[argument.key]
            if isinstance(field, Text) and "\n" in str(shown.get(argument.key)):
                field.show_lines()

    def problems(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str | None, str]:
        """Return the errors of the arguments by the key of their field."""
        found: dict[str | None, str] = {}
        for name, value in kwargs.items():
            if words := limits.json_problem(value, max_bytes=settings.CRONTY_MAX_JSON_BYTES):
                found[self.key_of(name)] = words
        for problem in self.task.check(args, kwargs):
            path, _, words = problem.partition(": ")
            name, _, part = path.partition(".")
            key = self.key_of(name)
            if not key:
                found.setdefault(key, problem)
                continue
            label = str(next(each.field.label for each in self.all if each.key == key))
            hint = HINTS.get((self.task.name, name), "")
            if part:
                found.setdefault(key, f"{part}: {words.partition(';')[0]}")
                continue
            if words.startswith("required, but missing") or "must not be blank" in words:
                words = enter(label)
            elif "match pattern" in words and hint:
                words = f"Use {hint[:1].lower()}{hint[1:]}."
            found.setdefault(key, f"{words[:1].upper()}{words[1:]}")
        return found

    def secret_problems(self, problem: Err) -> dict[str | None, str]:
        """Return what a service says about masked values, by the key of their field."""
        found: dict[str | None, str] = {}
        for words in (reason for reasons in problem.errors.values() for reason in reasons):
            place, _, reason = words.partition(": ")
            secret = place.split(".")[-1]
            again = f"Enter {secret} again, because it would go to another address or task."
            is_moved = reason.startswith("write it again")
            found[self.key_of(place)] = again if is_moved else f"Enter the real value of {secret}."
        return found

    def hints(self, cleaned: Mapping[str, Any]) -> list[str]:
        """Return a remark for each text that was probably meant as JSON, but is sent as plain text."""
        return [
            f"{argument.field.label} looks like JSON, but is sent as plain text: {problem}"
            for argument in self.named
            if "data-json-hint" in argument.field.widget.attrs
            and isinstance(text := cleaned.get(argument.key), str)
            and looks_like_json(text)
            and (problem := json_problem(text))
        ]

    def key_of(self, path: str) -> str | None:
        """Return the key of the field for an argument or a part of it, like `headers.accept`."""
        name = path.split(".")[0]
        return next((argument.key for argument in self.all if argument.name == name), None)


def enter(label: str) -> str:
    """Ask for a missing value."""
    word = label if label[:2].isupper() else f"{label[:1].lower()}{label[1:]}"
    article = "an" if word[:1].lower() in "aeio" else "a"
    return f"Enter {article} {word}."


def _resolved(spec: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Replace references to definitions, like those of enums, in a type and in the members of a union."""

    def resolved(each: Mapping[str, Any]) -> dict[str, Any]:
        name = each.get("$ref", "").removeprefix("#/$defs/")
        return {**schema.get("$defs", {}).get(name, {}), **each}

    found = resolved(spec)
    return found | {"anyOf": [resolved(each) for each in found["anyOf"]]} if "anyOf" in found else found


def _is_public(field: forms.Field, value: Any) -> bool:
    """Return whether a value is no secret, whatever its name: a choice, a number or a ticked box."""
    takes_numbers = isinstance(field, (forms.BooleanField, forms.IntegerField))
    return isinstance(field, forms.ChoiceField) or (takes_numbers and isinstance(value, (int, float)))


def _argument(task: Task, name: str, spec: Mapping[str, Any], *, is_required: bool) -> Argument:
    argument = _typed_argument(task, name, spec, is_required=is_required)
    default = spec.get("default")
    if default is None:
        return argument
    argument.field.initial = argument.write(default)
    if isinstance(argument.field, Text) and "\n" in argument.field.initial:
        argument.field.show_lines()
    return replace(argument, cleared=_cleared(spec))


def _cleared(spec: Mapping[str, Any]) -> Any:
    """Return what an empty field means if the default is not empty."""
    if spec["default"] in ("", [], {}):
        return ABSENT
    members = spec.get("anyOf", [spec])
    types = [each.get("type") for each in members if "enum" not in each and "const" not in each]
    if "null" in types or None in types:
        return None
    return next((EMPTY[each]() for each in types if each in EMPTY), ABSENT)


def _typed_argument(task: Task, name: str, spec: Mapping[str, Any], *, is_required: bool) -> Argument:
    members = spec.get("anyOf", [spec])
    shapes = [each for each in members if each.get("type") != "null"]
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
        hint = task.signature.parameters[name].annotation
        return Argument(
            name, key, _text_field(name, common), read=lambda text: _read_as(hint, text), write=_as_text
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
            return Argument(name, key, text, read=lambda text: _read_any(text, default), write=_as_text)
        case "object" if (shape.get("additionalProperties") or {}) == {"type": "string"}:
            return Argument(name, key, Pairs(**common), write=_as_text)
    if shape.get("type") == "object":
        common["help_text"] = common["help_text"] or OBJECT_HINT
        return Argument(name, key, _json_field(common, dict), write=_as_text)
    return Argument(name, key, _json_field(common), write=_as_text)


def _rest(task: Task, parameter: Parameter) -> Argument:
    is_list = parameter.kind is parameter.VAR_POSITIONAL
    common = {
        "label": label_of(parameter.name),
        "required": False,
        "help_text": "A JSON list, like [1, 2]." if is_list else OBJECT_HINT,
    }
    wanted = list if is_list else dict
    field = _json_field(common, wanted)
    return Argument(parameter.name, f"{task.name}-{'*' if is_list else '**'}", field, write=_as_text)


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
    return text if is_plain and "\n" not in text and _split(text) == value else _as_text(value)


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
    return default if text == _as_text(default) else _json_or_text(text)


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


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
