"""Test messages of channels: sent at once by this process, and recorded in the ledger like any notification."""

from dataclasses import dataclass
from typing import Any

from asgiref.sync import async_to_sync

from schedules import clock
from schedules.channels.mail import EMAIL
from schedules.channels.message import Message
from schedules.channels.sending import ChannelEnded, send
from schedules.channels.stored import OpenChannel, open_channel, write_outcome
from schedules.channels.webhook import WEBHOOK
from schedules.models import Channel
from schedules.result import Code, Err, Ok, Result
from schedules.services.people.channels import code_of
from schedules.services.people.hourly_limits import HourlyLimit
from schedules.services.people.webhooks import send_test_event
from schedules.services.permissions import Actor
from schedules.services.runs.actions import begin_push, end_push, run_of
from schedules.tasks.interface import Final, RetryLater, Run

# Codes go to addresses whose owners have not agreed to anything yet.
CODES_AN_HOUR = 10
TEST_QUEUED = "A test event is on its way: see the deliveries."
_codes = HourlyLimit(CODES_AN_HOUR)


@dataclass(frozen=True)
class SentTest:
    """The result of a test message."""

    is_sent: bool
    message: str


def send_test(actor: Actor, name: str) -> Result[SentTest]:
    """Send a test message by a channel, or the code to an address that is not confirmed yet."""
    if actor.is_agent:
        return Err(Code.CHANNELS_BY_PEOPLE)
    row = Channel.objects.filter(owner=actor.user.pk, name=name).first()
    if row is None:
        return Err(Code.CHANNEL_NOT_FOUND, name)
    if row.kind == WEBHOOK.name:
        queued = send_test_event(actor, row.name)
        return queued if isinstance(queued, Err) else Ok(SentTest(True, TEST_QUEUED))
    is_code = row.kind == EMAIL.name and row.confirmed_at is None
    if is_code and not _codes.allows(str(actor.user.pk)):
        return Err(Code.NOTIFICATIONS_SENT_TOO_FAST, limit=CODES_AN_HOUR, retry_after=3600)
    text = "Test notification. Cronty can reach you here."
    if is_code:
        text = f"Enter this code on the page of channels: {code_of(row)}\n\nIf you do not know Cronty, ignore this."
    started = begin_push(actor, {"message": f"Test of {name}"})
    if isinstance(started, Err):
        return started
    push = started.value
    try:
        receipt = async_to_sync(_send)(open_channel(row), Message(text, title="Cronty"), run_of(push))
    except (Final, RetryLater) as error:
        end_push(push, error=str(error))
        write_outcome(row.pk, str(error), clock.now(), has_ended=isinstance(error, ChannelEnded))
        return Ok(SentTest(False, str(error)))
    except Exception as error:
        end_push(push, error=f"Unexpected error: {type(error).__name__}.")
        raise
    end_push(push, result={"channel": name, **receipt})
    write_outcome(row.pk, "", clock.now())
    return Ok(SentTest(True, _success_message(row, is_code=is_code)))


async def _send(channel: OpenChannel, message: Message, run: Run) -> dict[str, Any]:
    receipt = await send(channel.kind, channel.values, message, run)
    return {key: value for key, value in receipt.items() if value is not None}


def _success_message(row: Channel, *, is_code: bool) -> str:
    if is_code:
        return f"A code is on its way to {row.options['address']}: enter it here."
    if row.kind == EMAIL.name:
        return "Sent. The mail server accepted it; look into the spam folder, too."
    return "Sent. The service accepted it: look at your device."
