"""Parameters of commands: what a job fills in, and which values fit."""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from schedules import limits
from schedules.secrets.references import names_in

LONGEST_TEXT = 1000

Value = str | int | float | bool


def one_line(text: str) -> str:
    """Return a text that is one printable line, or raise ValueError."""
    if problem := limits.line_problem(text):
        raise ValueError(problem)
    return text


def several_lines(text: str) -> str:
    """Return a text of printable lines, which may have line breaks and tabs, or raise ValueError."""
    if problem := limits.line_problem(text.replace("\n", " ").replace("\t", " ")):
        raise ValueError(problem)
    return text


Line = Annotated[str, Field(max_length=LONGEST_TEXT), AfterValidator(one_line)]


class Table(BaseModel):
    """A table of the file: unknown keys are refused."""

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
    def checked_text(self) -> Callable[[str], str]:
        """The function that returns a text that is fit for this parameter, or raises ValueError."""
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
            given = getattr(self, name)
            for value in given if isinstance(given, list) else [given]:
                if value is not None and (
                    not isinstance(value, kind) or isinstance(value, bool) != (kind == (bool,))
                ):
                    raise ValueError(f"{name}: {value!r} is not of type {self.type}")
                if isinstance(value, str):
                    self.checked_text(value)
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
