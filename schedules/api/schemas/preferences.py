"""Schemas of a person's preferences."""

from typing import Literal

from pydantic import ConfigDict, Field

from schedules.api.schemas.common import Input, Output
from schedules.api.schemas.jobs import Span


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
    quiet_hours: str | None = Field(None, max_length=20, description="When alerts wait: 22:00-07:00.")
    alert_every: Span | None = Field(
        None, description='How often to remind of what lasts, like "1d"; 0: never.'
    )
    clock_hours: Literal[12, 24] | None = None
    week_start: Literal[0, 5, 6] | None = Field(None, description="0: Monday, 5: Saturday, 6: Sunday.")

    model_config = ConfigDict(json_schema_extra={"examples": [{"quiet_hours": "22:00-07:00"}]})


class PreferencesOut(Output):
    """A person's preferences; an empty text where none is set."""

    timezone: str
    topic: str
    runner: str
    failure_topic: str
    alert_rules: str
    quiet_hours: str
    alert_every: int = Field(description="Seconds; 0: never.")
    clock_hours: int
    week_start: int
