"""The subcommand `channels`: list, add, test, confirm, rename and delete channels; it never prints a secret."""

from collections.abc import Sequence

import click

from cronty_site.terminal.output import answer, print_list, show_once
from cronty_site.terminal.rows import clock_text
from cronty_site.terminal.session import Session, subcommand
from schedules.channels.catalog import KINDS
from schedules.models import Execution
from schedules.services.documents import channel_json, delivery_json
from schedules.services.people.channel_tests import send_test
from schedules.services.people.channels import (
    ListedChannel,
    confirm_channel,
    delete_channel,
    list_channels,
    listed_channel,
    rename_channel,
    set_channel,
)
from schedules.services.people.webhooks import (
    find_webhook,
    list_deliveries,
    redeliver,
    rotate_secret,
    switch_webhook,
)


@subcommand(
    "channels",
    examples="""
    cronty channels
    cronty channels phone --add telegram chat=-1001
    cronty channels phone --test
    cronty channels phone --rename mobile
    cronty channels mobile --delete
    cronty channels n8n --add webhook url=https://n8n.example.com/webhook/1 events=run.failed tag=backup
    cronty channels n8n --deliveries
    cronty channels n8n --again 4711
    cronty channels n8n --new-secret
    cronty channels n8n --off
    """,
)
@click.argument("name", required=False)
@click.argument("values", nargs=-1)
@click.option(
    "--add", "kind", type=click.Choice(list(KINDS)), help="Add or replace it; secrets are asked for."
)
@click.option("--test", is_flag=True, help="Send a test message.")
@click.option("--confirm", "code", help="The code that was sent to an e-mail address.")
@click.option("--rename", "new_name", help="Its new name.")
@click.option("--delete", is_flag=True, help="Delete it.")
@click.option("--deliveries", is_flag=True, help="List the events that a webhook was sent.")
@click.option("--again", type=int, metavar="RUN", help="Send this delivery of a webhook again.")
@click.option(
    "--new-secret", is_flag=True, help="Give a webhook a new secret; the old one signs too for a day."
)
@click.option("--on", "is_on", is_flag=True, help="Tell a webhook of events again.")
@click.option("--off", "is_off", is_flag=True, help="Tell a webhook of no events; none are kept for it.")
def channels_command(
    session: Session,
    name: str | None,
    values: Sequence[str],
    kind: str | None,
    test: bool,
    code: str | None,
    new_name: str | None,
    delete: bool,
    deliveries: bool,
    again: int | None,
    new_secret: bool,
    is_on: bool,
    is_off: bool,
) -> None:
    """List channels, or add, test, rename or delete the channel NAME; VALUES are like chat=-1001.

    A webhook is told of events, too: by default of all; its secret is printed once.
    """
    if name is None:
        print_list(
            list_channels(session.actor),
            channel_json,
            ("channel", "kind", "goes to", "last sent", "last error"),
            lambda channel: _row(channel, session.zone),
            shrink="last error",
            if_none="No channels.",
        )
    elif kind:
        settings = _settings_of(session, kind, values)
        channel = session.expect(set_channel(session.actor, name, kind, settings))
        if channel.new_secret:
            _print_secret(channel)
            return
        answer(
            channel_json(channel),
            f"Saved: {channel.name}. Send a test: cronty channels {channel.name} --test",
        )
    elif code:
        session.expect(confirm_channel(session.actor, name, code))
        answer({"confirmed": name}, f"Confirmed: {name}.")
    elif new_name:
        session.expect(rename_channel(session.actor, name, new_name))
        answer({"renamed": new_name}, f"Renamed: {name} is {new_name} now.")
    elif delete:
        session.expect(delete_channel(session.actor, name))
        answer({"deleted": name}, f"Deleted: {name}.")
    elif test:
        tested = session.expect(send_test(session.actor, name))
        answer({"sent": tested.is_sent, "message": tested.message}, tested.message)
    elif deliveries:
        print_list(
            list_deliveries(session.expect(find_webhook(session.actor, name))),
            delivery_json,
            ("run", "event", "at", "status", "attempts", "error"),
            lambda run: _delivery_row(run, session.zone),
            shrink="error",
            if_none="Nothing was sent yet.",
        )
    elif again is not None:
        delivery = session.expect(redeliver(session.actor, name, again))
        answer(
            delivery_json(delivery),
            f"On its way as run {delivery.pk}. See: cronty channels {name} --deliveries",
        )
    elif new_secret:
        row, secret = session.expect(rotate_secret(session.actor, name))
        _print_secret(listed_channel(session.actor, row, secret))
    elif is_on or is_off:
        row = session.expect(switch_webhook(session.actor, name, is_on=is_on))
        channel = listed_channel(session.actor, row)
        answer(channel_json(channel), f"{channel.name} is {'on' if is_on else 'off'}.")
    else:
        raise click.UsageError("Choose one of the options, like --add or --test: see cronty channels --help.")


def _print_secret(channel: ListedChannel) -> None:
    show_once(
        channel_json(channel),
        channel.new_secret,
        f"It is not shown again. Send a test: cronty channels {channel.name!r} --test",
    )


def _delivery_row(run: Execution, zone: str) -> list[str]:
    event = (run.given or {}).get("event") or {}
    return [
        str(run.pk),
        event.get("type", "test"),
        clock_text(run.scheduled_for, zone),
        run.status,
        str(run.attempt),
        run.error or run.reason,
    ]


def _settings_of(session: Session, kind_name: str, values: Sequence[str]) -> dict[str, str]:
    """Return the settings of a channel; secrets are prompted for, because other users can see arguments."""
    kind = KINDS[kind_name]
    settings = dict(value.partition("=")[::2] for value in values)
    fields = {field.name: field for field in kind.fields}
    for name in settings:
        if name not in fields or fields[name].is_secret:
            names = ", ".join(field.name for field in kind.fields if not field.is_secret)
            raise click.UsageError(f"Give the values of: {names}. Secrets are asked for.")
    for field in kind.fields:
        if field.is_secret and field.is_required:
            settings[field.name] = session.ask_secret(field.label)
    return settings


def _row(channel: ListedChannel, zone: str) -> list[str]:
    return [
        channel.name,
        channel.kind.title,
        " ".join(value for _, value in channel.shown),
        clock_text(channel.last_sent_at, zone) if channel.last_sent_at else "",
        _problem(channel),
    ]


def _problem(channel: ListedChannel) -> str:
    if channel.off_reason:
        return f"off: {channel.off_reason}"
    return channel.last_error if channel.is_confirmed else "not confirmed"
