"""Parameters of commands: their definition in the file, and the types that validate their values."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from schedules import limits
from schedules.secrets.references import names_in

LONGEST_TEXT = 1000

Value = str | int | float | bool


def one_line(text: str) -> str:
    """Return a text that is one printable line; raises ValueError for any other."""
    if problem := limits.line_problem(text):
        raise ValueError(problem)
    return text


def several_lines(text: str) -> str:
    """Return a text of printable lines, with line breaks and tabs; raises ValueError for any other."""
    if problem := limits.line_problem(text.replace("\n", " ").replace("\t", " ")):
        raise ValueError(problem)
    return text


Line = Annotated[str, Field(max_length=LONGEST_TEXT), AfterValidator(one_line)]


class Table(BaseModel):
    """A table of the file, without unknown keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Parameter(Table):
    """One value that a job gives to a command."""

    type: Literal["text", "integer", "number", "boolean"] = "text"
    description: Line = ""
    choices: list[str | int | float] = []
    min: int | float | None = None
    max: int | float | None = None
    pattern: str | None = None
    max_length: Annotated[int, Field(ge=1, le=10_000)] = LONGEST_TEXT
    default: Value | None = None
    optional: bool = False
    multiline: bool = False

    @property
    def is_required(self) -> bool:
        return not self.optional and self.default is None

    @property
    def text_check(self) -> Callable[[str], str]:
        """The function that returns a text if this parameter accepts it, or raises ValueError."""
        return several_lines if self.multiline else one_line

    @model_validator(mode="after")
    def _fits_its_type(self) -> "Parameter":
        kinds: dict[str, tuple[type, ...]] = {
            "text": (str,),
            "integer": (int,),
            "number": (int, float),
            "boolean": (bool,),
        }
        kind = kinds[self.type]
        for name in ("choices", "default"):
            value_or_values = getattr(self, name)
            for value in value_or_values if isinstance(value_or_values, list) else [value_or_values]:
                if value is not None and (
                    not isinstance(value, kind) or isinstance(value, bool) != (kind == (bool,))
                ):
                    raise ValueError(f"{name}: {value!r} is not of type {self.type}")
                if isinstance(value, str):
                    self.text_check(value)
        if names_in(self.choices):
            raise ValueError("choices: a secret cannot be one of the choices; use a pattern")
        if self.type not in ("integer", "number") and (self.min is not None or self.max is not None):
            raise ValueError(f"min and max belong to numbers, not to type {self.type}")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError("min is larger than max")
        if self.type != "text" and self.pattern is not None:
            raise ValueError(f"a pattern belongs to text, not to type {self.type}")
        if self.type != "text" and self.multiline:
            raise ValueError(f"multiline belongs to text, not to type {self.type}")
        if self.choices and self.default is not None and self.default not in self.choices:
            raise ValueError("default: it is not one of the choices")
        if self.optional and self.default is not None:
            raise ValueError("a parameter with a default is never missing: leave out optional")
        return self


def value_problem(hint: Any, value: Any) -> str | None:
    """Return why a value does not fit the type of a parameter, or None, without quoting the value."""
    try:
        TypeAdapter(hint).validate_python(value)
    except ValidationError as error:
        message = error.errors(include_input=False)[0]["msg"].removeprefix("Value error, ")
        return f"{message[:1].lower()}{message[1:]}"
    return None


def task_parameter(name: str, parameter: Parameter, is_opening: bool) -> inspect.Parameter:
    """Return the parameter of the command's task; raises ValueError if the default does not fit its type."""
    default = inspect.Parameter.empty if parameter.is_required else parameter.default
    hint = _hint(parameter, is_opening)
    # Defaults must obey the same rules as the values of jobs.
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
        return Annotated[str, described, limit, AfterValidator(parameter.text_check), *rules]
    bounds = Field(ge=parameter.min, le=parameter.max)
    number = int if parameter.type == "integer" else float
    return Annotated[number, described, bounds, *rules]


def _no_option(value: Any) -> Any:
    if str(value).startswith("-"):
        raise ValueError("must not begin with -, because the program would read it as an option")
    return value
