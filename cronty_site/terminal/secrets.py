"""The subcommand `secret`: list, set and delete secrets; it never prints a value."""

from collections.abc import Sequence

import click

from cronty_site.terminal.consoles import current_console
from cronty_site.terminal.failures import Failure
from cronty_site.terminal.output import answer, print_list
from cronty_site.terminal.rows import clock_text
from cronty_site.terminal.session import Session, subcommand
from schedules.services.people.stored_secrets import (
    ListedSecret,
    delete_secret,
    list_secrets,
    move_expiry,
    set_secret,
)


@subcommand(
    "secret",
    examples="""
    cronty secret
    cronty secret GITHUB_TOKEN --host api.github.com
    cronty secret GITHUB_TOKEN --expires 2030-03-31
    cronty secret RESTIC_PASSWORD --command backup --installation < password.txt
    cronty secret GITHUB_TOKEN --delete
    """,
)
@click.argument("name", required=False)
@click.option(
    "--host", "hosts", multiple=True, help="A host that webhooks may send it to; repeat for several."
)
@click.option("--command", "commands", multiple=True, help="A command that may get it; repeat for several.")
@click.option(
    "--expires",
    metavar="DATE",
    help="When the other side stops accepting it, or never; without hosts and commands, changes only that.",
)
@click.option("--installation", "of_installation", is_flag=True, help="For commands.toml, not for jobs.")
@click.option("--delete", is_flag=True, help="Delete it.")
def secret_command(
    session: Session,
    name: str | None,
    hosts: Sequence[str],
    commands: Sequence[str],
    expires: str | None,
    of_installation: bool,
    delete: bool,
) -> None:
    """List secrets, or set the secret NAME: its value is asked for, or read from standard input."""
    if name is None:
        print_list(
            list_secrets(session.actor),
            _as_json,
            ("secret", "allowed for", "used in", "changed", "expires"),
            lambda secret: _row(secret, session.zone),
            shrink="allowed for",
            if_none="No secrets.",
        )
    elif of_installation and session.token:
        raise Failure("Secrets of the installation are set on its own machine.")
    elif delete:
        session.expect(delete_secret(session.actor, name, of_installation=of_installation))
        answer({"deleted": name}, f"Deleted: {name}. Runs that refer to it fail from now on.")
    elif expires is not None and not hosts and not commands:
        moved = session.expect(move_expiry(session.actor, name, expires, of_installation=of_installation))
        words = (
            f"expires on {clock_text(moved.expires_at, session.zone)}"
            if moved.expires_at
            else "never expires"
        )
        answer(_as_json(moved), f"{name} {words}.")
    else:
        value = _value(session, name)
        stored = session.expect(
            set_secret(
                session.actor,
                name,
                value,
                hosts=hosts,
                commands=commands,
                expires=expires or "",
                of_installation=of_installation,
            )
        )
        answer(_as_json(stored), f"Saved: {name}. Write ${{secret:{name}}} where it is needed.")


def _value(session: Session, name: str) -> str:
    value: str | None = current_console().do("read_input")
    if value is None:
        return session.ask_secret(f"Value of {name}")
    # `echo` adds a line break to a password, but the last line break of a multi-line key belongs to it.
    return value.removesuffix("\n") if value.count("\n") == 1 else value


def _row(secret: ListedSecret, zone: str) -> list[str]:
    return [
        secret.name,
        " ".join([*secret.hosts, *secret.commands]),
        "commands.toml" if secret.of_installation else "jobs",
        clock_text(secret.updated_at, zone),
        f"{clock_text(secret.expires_at, zone)}{' (expired)' if secret.is_expired else ''}",
    ]


def _as_json(secret: ListedSecret) -> dict[str, object]:
    return {
        "name": secret.name,
        "hosts": list(secret.hosts),
        "commands": list(secret.commands),
        "of_installation": secret.of_installation,
        "updated_at": secret.updated_at.isoformat(),
        "expires_at": secret.expires_at.isoformat() if secret.expires_at else None,
        "expired": secret.is_expired,
    }
