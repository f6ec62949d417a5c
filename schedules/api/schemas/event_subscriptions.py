"""Schemas of event receivers and their deliveries; a secret is shown once."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from schedules.api.schemas.common import Input, Moment, Output, Phrase, Text

EventName = Literal[
    "prompt.due", "run.failed", "run.recovered", "slot.missed", "job.changed", "approval.requested"
]


class EventSubscriptionIn(Input):
    """A receiver: which events go to which address."""

    name: Phrase
    url: Annotated[str, Field(min_length=1, max_length=2048, description="An https address.")]
    types: Annotated[list[EventName], Field(min_length=1, max_length=10)]
    tag: Text = Field(default="", description="Only events of jobs with this tag.")
    job: Text = Field(default="", description="Only events of this job: its id, number or name.")

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "n8n", "url": "https://n8n.example.com/webhook/1", "types": ["run.failed"]}]
        }
    )


class EventSubscriptionOut(Output):
    """A receiver without its secret."""

    id: str
    name: str
    url: str
    types: list[str]
    tag: str
    job: str | None
    on: bool
    reason: str | None = Field(description="Why it is off.")
    last_sent_at: Moment | None
    last_error: str | None


class NewEventSubscriptionOut(EventSubscriptionOut):
    """A receiver with its new secret, which is not shown again."""

    secret: str


class EventSubscriptionsOut(Output):
    """The receivers of the owner's events."""

    subscriptions: list[EventSubscriptionOut]


class DeliveryOut(Output):
    """One event for one receiver; its id is that of the run that sends it."""

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
