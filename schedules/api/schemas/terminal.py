"""Schemas of command lines that `cronty` sends from other machines."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from schedules.api.schemas.common import Input

Word = Annotated[str, Field(max_length=20_000)]


class Answer(Input):
    """What the machine of the person has answered, and to which question."""

    to: Annotated[str, Field(max_length=64, description="`digest` of the question.")]
    value: Any = None


class LineIn(Input):
    """A command line, and the terminal that it was typed in."""

    words: list[Word] = Field(min_length=1, max_length=500, examples=[["jobs", "--status", "paused"]])
    answers: list[Answer] = Field(default_factory=list, max_length=20)
    out_is_terminal: bool = False
    err_is_terminal: bool = False
    width: int | None = Field(None, ge=1, le=10_000)
    environ: dict[Annotated[str, Field(max_length=20)], Annotated[str, Field(max_length=100)]] = Field(
        default_factory=dict,
        max_length=8,
        description="TERM, COLORTERM, NO_COLOR and COLUMNS of the terminal.",
    )

    model_config = ConfigDict(json_schema_extra={"examples": [{"words": ["jobs", "--status", "paused"]}]})
