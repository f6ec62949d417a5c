"""The subcommand `channels`: list, add, test, confirm, rename and delete channels; it never prints a secret."""

from collections.abc import Sequence

import click

from cronty_site.terminal.output import answer, print_list
from cronty_site.terminal.rows import clock_text
from cronty_site.terminal.session import Session, subcommand
from schedules.channels.catalog import KINDS
from schedules.services.documents import channel_json
from schedules.services.people.channel_tests import send_test
from schedules.services.people.channels import (
    ListedChannel,
    confirm_channel,
    delete_channel,
    list_channels,
    rename_channel,
    set_channel,
)


@subcommand(
    "channels",
    examples="""
    cronty channels
    cronty channels phone --add telegram chat=-1001
    cronty channels phone --test
    cronty channels phone --rename mobile
    cronty channels mobile --delete
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
def channels_command(
    session: Session,
    name: str | None,
    values: Sequence[str],
    kind: str | None,
    test: bool,
    code: str | None,
    new_name: str | None,
    delete: bool,
) -> None:
    """List channels, or add, test, rename or delete the channel NAME; VALUES are like chat=-1001."""
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
    else:
        raise click.UsageError("Choose --add, --test, --confirm, --rename or --delete.")


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
        channel.last_error if channel.is_confirmed else "not confirmed",
    ]
