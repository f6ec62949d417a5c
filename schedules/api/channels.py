"""Schemas of channels: how people are reached; secrets are only written."""

from typing import Annotated, Any

from ninja import Router
from pydantic import ConfigDict, Field

from schedules.api.common import Input, Moment, Output, Phrase
from schedules.api.endpoints import route
from schedules.services.people import operations


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


router = Router(tags=["channels"])

route(router, "GET ", operations.list_channels, ChannelsOut)
route(router, "PUT /{channel}", operations.set_channel, SavedChannelOut, body=ChannelIn)
route(router, "POST /{channel}/test", operations.test_channel, TestedOut, repeatable=False)
route(router, "POST /{channel}/confirm", operations.confirm_channel, None, body=CodeIn)
route(router, "POST /{channel}/rename", operations.rename_channel, None, body=NewName)
route(router, "DELETE /{channel}", operations.delete_channel, None)
route(router, "POST /{channel}/on", operations.switch_channel_on, ChannelOut)
route(router, "POST /{channel}/off", operations.switch_channel_off, ChannelOut)
route(router, "POST /{channel}/secret", operations.rotate_channel_secret, SavedChannelOut, repeatable=False)
route(router, "GET /{channel}/deliveries", operations.list_channel_deliveries, DeliveriesOut)
route(
    router,
    "POST /{channel}/deliveries/{int:delivery}/send",
    operations.send_event_again,
    DeliveryOut,
    status=202,
)
