"""Base classes and fields that several schemas share: bodies, filters, answers, pages and problems."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Outcome = Literal["succeeded", "failed", "cancelled", "skipped", "missed"]
MAX_PAGE = 200
Text = Annotated[str, Field(max_length=200)]
Phrase = Annotated[str, Field(min_length=1, max_length=200)]
Zone = Annotated[
    str,
    Field(
        min_length=1,
        max_length=64,
        description="An IANA zone or a city. Default: the owner's.",
        examples=["Europe/Berlin"],
    ),
]
Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Day = Annotated[str, Field(json_schema_extra={"format": "date"})]
SCHEDULE = Field(
    min_length=1,
    max_length=300,
    description="A phrase, five cron fields, or a time: every weekday at 8:30, */15 * * * *, 2030-02-05T15:00.",
    examples=["every weekday at 8:30"],
)


class Input(BaseModel):
    """A body: types are not converted, and unknown fields are refused by name."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Filter(BaseModel):
    """Query parameters; unknown ones are refused by name."""

    model_config = ConfigDict(extra="forbid")


class Paged(Filter):
    """A part of a list."""

    limit: int = Field(50, ge=1, le=MAX_PAGE)
    cursor: str = Field("", max_length=100, description="`next_cursor` of the page before.")


class Output(BaseModel):
    """An answer: exactly these fields."""

    model_config = ConfigDict(extra="forbid")


class FieldProblem(BaseModel):
    """What is wrong with one field."""

    field: str
    detail: str


class ProblemOut(BaseModel):
    """Problem details as in RFC 9457."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    errors: list[FieldProblem] = Field(default_factory=list)
    retry_after: int | None = None

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "type": "/api/#invalid",
                    "title": "Unprocessable Entity",
                    "status": 422,
                    "code": "invalid",
                    "detail": "schedule: Not understood.",
                    "errors": [{"field": "schedule", "detail": "Not understood."}],
                }
            ]
        },
    )
