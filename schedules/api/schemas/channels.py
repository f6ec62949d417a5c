"""Schemas of channels: how people are reached; secrets are only written."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from schedules.api.schemas.common import Input, Moment, Output, Phrase


class ChannelIn(Input):
    """A kind of channel with the values of its fields, secrets included."""

    kind: Phrase
    values: dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=4096)]] = Field(
        default_factory=dict, description="The fields of its kind; an unknown one is refused by name."
    )

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"kind": "ntfy", "values": {"topic": "my-phone"}},
                {
                    "kind": "webhook",
                    "values": {"url": "https://n8n.example.com/webhook/1", "events": "run.failed"},
                },
            ]
        }
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
    on: bool | None = Field(description="Whether a webhook is told of events; null for other kinds.")
    off_reason: str | None


class SavedChannelOut(ChannelOut):
    """A channel, and the secret of a webhook that is new, which is not shown again."""

    secret: str | None = None


class ChannelsOut(Output):
    """The channels of the owner."""

    channels: list[ChannelOut]


class TestedOut(Output):
    """What became of a test message."""

    sent: bool
    message: str


class DeliveryOut(Output):
    """One event for one webhook; its id is that of the run that sends it."""

    id: int
    event_id: str | None
    type: str | None
    status: str
    attempts: int
    at: Moment
    finished_at: Moment | None
    next_attempt_at: Moment | None
    answer: dict[str, Any] | None = Field(
        description="The status of the receiver, and how its answer begins."
    )
    error: str | None


class DeliveriesOut(Output):
    """The last deliveries, newest first."""

    deliveries: list[DeliveryOut]
