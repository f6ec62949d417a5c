"""Schemas of a person's preferences."""

from typing import Annotated, Any, Literal

from ninja import Router
from pydantic import BeforeValidator, ConfigDict, Field

from schedules.api.common import Input, Output
from schedules.api.endpoints import route
from schedules.services.people import operations
from schedules.spec.readers import Span


def _refuse_booleans(value: Any) -> Any:
    # In Python, False equals 0.
    return str(value) if isinstance(value, bool) else value


class PreferencesIn(Input):
    """The preferences to change; an empty text removes one."""

    timezone: str | None = Field(None, max_length=100, description="A city or a zone.")
    topic: str | None = Field(
        None,
        max_length=64,
        description="Where notifications go by default: a topic, or the name of a channel.",
    )
    runner: str | None = Field(None, max_length=100, description="The runner of prompts that name none.")
    failure_topic: str | None = Field(
        None, max_length=64, description="Where alerts go: a topic, or the name of a channel."
    )
    alert_rules: str | None = Field(
        None, max_length=200, description='The alerts that are not wanted: "not late, not recovered".'
    )
    quiet_hours: str | None = Field(
        None, max_length=20, description="When notifications, reminders and alerts wait: 22:00-07:00."
    )
    alert_every: Span = Field(None, description='How often to remind of what lasts, like "1d"; 0: never.')
    clock_hours: Literal[12, 24] | None = None
    week_start: Annotated[Literal[0, 5, 6] | None, BeforeValidator(_refuse_booleans)] = Field(
        None, description="0: Monday, 5: Saturday, 6: Sunday."
    )

    model_config = ConfigDict(json_schema_extra={"examples": [{"quiet_hours": "22:00-07:00"}]})


class PreferencesOut(Output):
    """A person's preferences; an empty text where none is set."""

    timezone: str
    topic: str
    runner: str
    failure_topic: str
    alert_rules: str
    quiet_hours: str = Field(description="When notifications, reminders and alerts wait, to be sent once.")
    alert_every: int = Field(description="Seconds; 0: never.")
    clock_hours: int
    week_start: int


router = Router(tags=["preferences"])

route(router, "GET ", operations.show_preferences, PreferencesOut)
route(router, "PATCH ", operations.change_preferences, PreferencesOut, body=PreferencesIn)
