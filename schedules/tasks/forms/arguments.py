"""The arguments of a task in a form: convert stored arguments to form fields, and input to arguments."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from django import forms
from django.conf import settings

from schedules import limits
from schedules.result import Err
from schedules.secrets import masking
from schedules.tasks.forms.fields import Text, json_problem, looks_like_json
from schedules.tasks.forms.schema_fields import ABSENT, Argument, argument_of, rest_of, shown
from schedules.tasks.registry import Task

MAX_INLINE_OPTIONS = 3
DESCRIPTIONS = {
    "notify": "Send a notification to an ntfy topic, or by one of your channels.",
    "webhook": "Call a URL. Requests are signed; retries share one Idempotency-Key.",
    "prompt": "Give a prompt to your agent when it's due.",
    "heartbeat": "Expect a ping from a job that runs elsewhere, and report it if none comes in time.",
}


class Arguments:
    """Converts the arguments of one task to form fields and back."""

    def __init__(self, task: Task) -> None:
        self.task = task
        schema = task.schema
        self.named = [
            argument_of(task, name, spec, is_required=name in schema.get("required", ()))
            for name, spec in schema["properties"].items()
        ]
        self.rest = [
            rest_of(task, parameter)
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
        required = [argument for argument in self.named if argument.field.widget.is_required]
        options = [argument for argument in self.named if argument not in required]
        first = [argument for argument in options if shown(self.task, argument.name).is_first]
        return required + (first or options[:MAX_INLINE_OPTIONS]) + self.rest

    @property
    def folded(self) -> list[Argument]:
        return [argument for argument in self.all if argument not in self.inline]

    def fields(self) -> dict[str, forms.Field]:
        """Return the fields; none of them is required, because the form has those of all tasks, and uses only one task's.

        Their widgets keep `is_required`, so that the page can mark required fields.
        """
        for argument in self.all:
            argument.field.required = False
        return {argument.key: argument.field for argument in self.all}

    def stored(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return stored arguments by the key of their field, with secrets masked; positional ones by name."""
        try:
            bound = self.task.signature.bind_partial(*args).arguments
        except TypeError:
            # The task has changed since then, and takes fewer arguments.
            bound = {}
        values = {**bound, **kwargs}
        masked: dict[str, Any] = masking.masked(values)
        stored = {}
        for argument in self.named:
            if argument.name in values:
                is_public = argument.is_public(values[argument.name])
                stored[argument.key] = (values if is_public else masked)[argument.name]
        names = {argument.name for argument in self.named}
        for argument in self.rest:
            rest: Any
            if argument.key.endswith("**"):
                rest = {name: masked[name] for name in kwargs if name not in names}
            else:
                # Mask each value under the parameter's name: the stored list itself has no name.
                name = argument.name
                rest = [masking.masked({name: item})[name] for item in bound.get(name, ())]
            if rest:
                stored[argument.key] = rest
        return stored

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
        """Convert the input of a form to (args, kwargs); return None if a field has an error.

        A field that was not sent, or not changed, keeps the stored value and causes no error.
        """
        untouched = self._untouched(form, stored)
        for key in untouched:
            form.errors.pop(key, None)
        if any(argument.key in form.errors for argument in self.all):
            return None
        values = {key: value for key, value in (stored or {}).items() if key in untouched}
        for argument in self.all:
            if argument.key not in untouched:
                entered = form.cleaned_data.get(argument.key)
                value = argument.cleared if entered in argument.empty else argument.read(entered)
                if value is not ABSENT:
                    values[argument.key] = value
        return self._as_call(values)

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

    def _as_call(self, values: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return (args, kwargs), with only those arguments by position that cannot be passed by name."""
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
        properties = self.task.schema["properties"]
        for parameter in by_position:
            # The schema has the default as JSON; copied, because all jobs share the schema.
            default = deepcopy(properties.get(parameter.name, {}).get("default", parameter.default))
            value = kwargs.pop(parameter.name, default)
            if value is parameter.empty:
                # Task.check reports that it is missing.
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
        problems: dict[str | None, str] = {}
        for name, value in kwargs.items():
            if message := limits.json_problem(value, max_bytes=settings.CRONTY_MAX_JSON_BYTES):
                problems[self.key_of(name)] = message
        for problem in self.task.check(args, kwargs):
            path, _, message = problem.partition(": ")
            name, _, part = path.partition(".")
            key = self.key_of(name)
            if not key:
                problems.setdefault(key, problem)
                continue
            label = str(next(each.field.label for each in self.all if each.key == key))
            hint = shown(self.task, name).hint or ""
            if part:
                problems.setdefault(key, f"{part}: {message.partition(';')[0]}")
                continue
            if message.startswith("required, but missing") or "must not be blank" in message:
                message = enter_message(label)
            elif "match pattern" in message and hint:
                message = f"Use {hint[:1].lower()}{hint[1:]}."
            problems.setdefault(key, f"{message[:1].upper()}{message[1:]}")
        return problems

    def secret_problems(self, problem: Err) -> dict[str | None, str]:
        """Return a service's refusal of masked values as errors by the key of their field."""
        problems: dict[str | None, str] = {}
        for message in (reason for reasons in problem.errors.values() for reason in reasons):
            path, _, reason = message.partition(": ")
            secret = next(part for part in reversed(path.split(".")) if not part.isdecimal())
            if reason.startswith("write it again"):
                error = f"Enter {secret} again, because it would go to another address or task."
            else:
                error = f"Enter the real value of {secret}."
            problems[self.key_of(path)] = error
        return problems

    def hints(self, cleaned: Mapping[str, Any]) -> list[str]:
        """Return a hint for each text that was probably meant as JSON, but is sent as plain text."""
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


def enter_message(label: str) -> str:
    """Return the message that asks for a missing value."""
    word = label if label[:2].isupper() else f"{label[:1].lower()}{label[1:]}"
    article = "an" if word[:1].lower() in "aeio" else "a"
    return f"Enter {article} {word}."
