"""Schemas of channels: how people are reached; secrets are only written."""

from typing import Annotated

from pydantic import ConfigDict, Field

from schedules.api.schemas.common import Input, Moment, Output, Phrase


class ChannelIn(Input):
    """A kind of channel with the values of its fields, secrets included."""

    kind: Phrase
    values: dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=4096)]] = Field(
        default_factory=dict, description="The fields of its kind; an unknown one is refused by name."
    )

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"kind": "ntfy", "values": {"topic": "my-phone"}}]}
    )


class CodeIn(Input):
    """The code that was sent to the address."""

    code: Phrase = Field(examples=["4F8A21C0"])


class NewName(Input):
    """The new name."""

    name: Phrase


class ChannelOut(Output):
    """A channel without its secrets."""

    name: str
    kind: str
    options: dict[str, str]
    confirmed: bool
    default: bool
    alerts: bool
    last_sent_at: Moment | None
    last_error: str | None


class ChannelsOut(Output):
    """The channels of the owner."""

    channels: list[ChannelOut]


class TestedOut(Output):
    """What became of a test message."""

    sent: bool
    message: str
