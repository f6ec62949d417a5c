"""The subcommand `channels`: list, add, test, confirm, rename and delete channels; it never prints a secret."""

from collections.abc import Sequence

import click

from cronty_site.terminal import here
from cronty_site.terminal.output import answer, print_list, show_once
from cronty_site.terminal.rows import Document, clock_text
from cronty_site.terminal.session import Session, subcommand
from schedules.channels.catalog import KINDS


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
            session.call("list_channels")["channels"],
            ("channel", "kind", "goes to", "last sent", "last error"),
            lambda channel: _row(channel, session.zone),
            shrink="last error",
            if_none="No channels.",
        )
    elif kind:
        channel = session.call("set_channel", channel=name, kind=kind, values=_settings_of(kind, values))
        if channel.get("secret"):
            _print_secret(channel)
        else:
            answer(
                channel,
                f"Saved: {channel['name']}. Send a test: cronty channels {channel['name']} --test",
            )
    elif code:
        session.call("confirm_channel", channel=name, code=code)
        answer({"confirmed": name}, f"Confirmed: {name}.")
    elif new_name:
        session.call("rename_channel", channel=name, name=new_name)
        answer({"renamed": new_name}, f"Renamed: {name} is {new_name} now.")
    elif delete:
        session.call("delete_channel", channel=name)
        answer({"deleted": name}, f"Deleted: {name}.")
    elif test:
        tested = session.call("test_channel", channel=name)
        answer(tested, tested["message"])
    elif deliveries:
        print_list(
            session.call("list_channel_deliveries", channel=name)["deliveries"],
            ("run", "event", "at", "status", "attempts", "error"),
            lambda each: _delivery_row(each, session.zone),
            shrink="error",
            if_none="Nothing was sent yet.",
        )
    elif again is not None:
        sent = session.call("send_event_again", channel=name, delivery=again)
        answer(sent, f"On its way as run {sent['id']}. See: cronty channels {name} --deliveries")
    elif new_secret:
        _print_secret(session.call("rotate_channel_secret", channel=name))
    elif is_on or is_off:
        channel = session.call("switch_channel_on" if is_on else "switch_channel_off", channel=name)
        answer(channel, f"{channel['name']} is {'on' if is_on else 'off'}.")
    else:
        raise click.UsageError("Choose one of the options, like --add or --test: see cronty channels --help.")


def _print_secret(channel: Document) -> None:
    show_once(
        channel,
        channel["secret"],
        f"It is not shown again. Send a test: cronty channels {channel['name']!r} --test",
    )


def _delivery_row(delivery: Document, zone: str) -> list[str]:
    return [
        str(delivery["id"]),
        delivery["type"] or "test",
        clock_text(delivery["at"], zone),
        delivery["status"],
        str(delivery["attempts"]),
        delivery["error"] or "",
    ]


def _settings_of(kind_name: str, values: Sequence[str]) -> dict[str, str]:
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
            settings[field.name] = here.ask_secret(field.label)
    return settings


def _row(channel: Document, zone: str) -> list[str]:
    kind = KINDS[channel["kind"]]
    options = channel["options"]
    goes_to = [options[field.name] for field in kind.fields if options.get(field.name) and not field.choices]
    return [
        channel["name"],
        kind.title,
        " ".join(goes_to),
        clock_text(channel["last_sent_at"], zone),
        _problem(channel),
    ]


def _problem(channel: Document) -> str:
    if channel["off_reason"]:
        return f"off: {channel['off_reason']}"
    return (channel["last_error"] or "") if channel["confirmed"] else "not confirmed"
