"""The subcommands `secret` and `token`: list, set and revoke what gives access; values of secrets are never printed."""

import sys
from collections.abc import Sequence
from datetime import datetime, timedelta

import click

from cronty_site.terminal import here
from cronty_site.terminal.arguments import Duration
from cronty_site.terminal.failures import ExitCode, Failure
from cronty_site.terminal.output import answer, print_json, print_list
from cronty_site.terminal.rows import Document, clock_text
from cronty_site.terminal.session import Session, subcommand
from schedules.models import Token
from schedules.result import Kind
from schedules.services.people.tokens import FAMILIES, SCOPES
from schedules.services.reading import did_you_mean


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
            session.call("list_secrets")["secrets"],
            ("secret", "allowed for", "used in", "changed", "expires"),
            lambda secret: _secret_row(secret, session.zone),
            shrink="allowed for",
            if_none="No secrets.",
        )
        return
    if of_installation and session.is_remote:
        raise Failure("Secrets of the installation are set on its own machine.")
    of_place = {"of_installation": True} if of_installation else {}
    if delete:
        session.call("delete_secret", secret=name, **of_place)
        answer({"deleted": name}, f"Deleted: {name}. Runs that refer to it fail from now on.")
    elif expires is not None and not hosts and not commands:
        moved = session.call("move_secret_expiry", secret=name, expires_at=expires or "never", **of_place)
        end = clock_text(moved["expires_at"], session.zone)
        answer(moved, f"{name} {f'expires on {end}' if end else 'never expires'}.")
    else:
        stored = session.call(
            "set_secret",
            secret=name,
            value=_secret_value(name),
            hosts=list(hosts),
            commands=list(commands),
            expires_at=expires or None,
            **of_place,
        )
        answer(stored, f"Saved: {name}. Write ${{secret:{name}}} where it is needed.")


def _secret_value(name: str) -> str:
    if sys.stdin.isatty():
        return here.ask_secret(f"Value of {name}")
    value = sys.stdin.read()
    # `echo` adds a line break to a password, but the last line break of a multi-line key belongs to it.
    return value.removesuffix("\n") if value.count("\n") == 1 else value


def _secret_row(secret: Document, zone: str) -> list[str]:
    return [
        secret["name"],
        " ".join([*secret["hosts"], *secret["commands"]]),
        "commands.toml" if secret["of_installation"] else "jobs",
        clock_text(secret["updated_at"], zone),
        f"{clock_text(secret['expires_at'], zone)}{' (expired)' if secret['expired'] else ''}",
    ]


class TokenGroup(click.Group):
    """A group that runs `create` for a NAME that is not a subcommand, and `list` without arguments."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        is_help = bool(set(args[:1]) & {"-h", "--help"})
        if not is_help and (not args or args == ["--json"]):
            args = ["list", *args]
        elif not is_help and args[0] not in self.commands:
            args = ["create", *args]
        return super().parse_args(context, args)


@click.group("token", cls=TokenGroup, no_args_is_help=False)
def token_command() -> None:
    """Create a token for an agent (`cronty token NAME`), list all tokens, or revoke one.

    \b
    Examples:
      cronty token laptop
      cronty token phone --scopes read --expires-in 30d
      cronty token list
      cronty token revoke phone
    """


@subcommand(
    "create",
    examples="""
    cronty token laptop
    cronty token phone --scopes read --expires-in 30d
    """,
)
@click.argument("name")
@click.option("--scopes", default=",".join(SCOPES), show_default=True, help="read, or read,write.")
@click.option("--expires-in", type=Duration(), help="Like 365d or 12h.  [default: never]")
@click.option("--kind", type=click.Choice(Token.Kind.values), default=Token.Kind.CONVERSATION.value)
@click.option("--tools", default="", help=f"Tool families to offer.  [default: {','.join(FAMILIES)}]")
@click.option(
    "--confirm",
    type=click.Choice(Token.Confirm.values),
    help="Which of its jobs wait until you confirm them.  [default: never]",
)
def create_command(
    session: Session,
    name: str,
    scopes: str,
    expires_in: timedelta | None,
    kind: str,
    tools: str,
    confirm: str | None,
) -> None:
    """Create a token for an agent called NAME, and print it, once."""
    token = session.call(
        "create_token",
        name=name,
        scopes=scopes.replace(",", " ").split(),
        tools=tools.replace(",", " ").split(),
        kind=kind,
        confirm=confirm,
        expires_in_days=expires_in / timedelta(days=1) if expires_in else None,
    )
    if session.as_json:
        print_json({"name": name, "token": token["text"]})
    else:
        click.echo(token["text"])


@subcommand("list", examples="cronty token list")
def list_command(session: Session) -> None:
    """List the tokens that are not revoked, the newest first."""
    print_list(
        session.call("list_tokens")["tokens"],
        ("name", "kind", "scopes", "expires", "last used"),
        lambda token: _token_row(session, token),
        shrink="name",
        if_none="No tokens.",
    )


@subcommand("revoke", examples="cronty token revoke phone")
@click.argument("name")
def revoke_command(session: Session, name: str) -> None:
    """Revoke the token NAME: the agent that uses it is refused from now on."""
    tokens = {token["name"]: token for token in session.call("list_tokens")["tokens"]}
    if name not in tokens:
        problem = f"Token not found: {name}.{did_you_mean(name, tokens)}"
        raise Failure(problem, ExitCode.NOT_FOUND, code=Kind.NOT_FOUND)
    session.call("revoke_token", token=tokens[name]["id"])
    answer(tokens[name], f"Revoked: {name}", style="")


for command in (create_command, list_command, revoke_command):
    token_command.add_command(command)


def _token_row(session: Session, token: Document) -> list[str]:
    end = token["expires_at"]
    is_expired = bool(end) and datetime.fromisoformat(end) <= session.now
    expires = clock_text(end, session.zone) or "never"
    return [
        token["name"],
        "connected app" if token["is_connected_app"] else token["kind"],
        ", ".join(token["scopes"]),
        f"expired {expires}" if is_expired else expires,
        clock_text(token["last_used_at"], session.zone) or "never",
    ]
