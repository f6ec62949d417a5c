"""The parameters of a command as those of a task: each has a type that checks its values."""

import inspect
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from schedules.tasks.commands.definitions import Command
from schedules.tasks.commands.parameters import Parameter


def parameters_of(command: Command) -> list[inspect.Parameter]:
    """Return the parameters in the order of arguments by position; raises ValueError for an impossible default."""
    opening = command.opening_parameters()
    return [_parameter(name, command.parameters[name], name in opening) for name in command.order]


def value_problem(hint: Any, value: Any) -> str | None:
    """Return why a value does not fit the type of a parameter, or None; the text does not quote the value."""
    try:
        TypeAdapter(hint).validate_python(value)
    except ValidationError as error:
        message = error.errors(include_input=False)[0]["msg"].removeprefix("Value error, ")
        return f"{message[:1].lower()}{message[1:]}"
    return None


def _parameter(name: str, parameter: Parameter, is_opening: bool) -> inspect.Parameter:
    default = inspect.Parameter.empty if parameter.is_required else parameter.default
    hint = _hint(parameter, is_opening)
    # A job could not give a default like this itself.
    if parameter.default is not None and (problem := value_problem(hint, parameter.default)):
        raise ValueError(f"parameters.{name}.default: {problem}")
    return inspect.Parameter(
        name,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=default,
        annotation=hint | None if parameter.optional else hint,
    )


def _hint(parameter: Parameter, is_opening: bool) -> Any:
    described = Field(description=parameter.description or None)
    if parameter.choices:
        return Annotated[Literal[tuple(parameter.choices)], described]
    if parameter.type == "boolean":
        return Annotated[bool, described]
    rules = [AfterValidator(_no_option)] if is_opening else []
    if parameter.type == "text":
        pattern = f"^(?:{parameter.pattern})$" if parameter.pattern is not None else None
        limit = Field(max_length=parameter.max_length, pattern=pattern)
        return Annotated[str, described, limit, AfterValidator(parameter.checked_text), *rules]
    bounds = Field(ge=parameter.min, le=parameter.max)
    number = int if parameter.type == "integer" else float
    return Annotated[number, described, bounds, *rules]


def _no_option(value: Any) -> Any:
    if str(value).startswith("-"):
        raise ValueError("must not begin with -, because the program would read it as an option")
    return value
