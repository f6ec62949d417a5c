"""The subcommand `token`: create, list and revoke tokens of agents."""

from datetime import timedelta
from typing import Any

import click
from django.db.models import QuerySet

from cronty_site.terminal.arguments import Duration
from cronty_site.terminal.consoles import echo
from cronty_site.terminal.failures import ExitCode, Failure, did_you_mean
from cronty_site.terminal.output import answer, print_json, print_list
from cronty_site.terminal.rows import clock_text, iso_in
from cronty_site.terminal.session import Session, subcommand
from schedules.models import Event, Token
from schedules.result import Kind
from schedules.services import issue_token, revoke_token
from schedules.services.documents import token_json
from schedules.services.people.access import LONGEST_LIFE, issue_lesser_token, revoke_own_token
from schedules.services.people.tokens import FAMILIES, SCOPES


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
    settings: dict[str, Any] = {
        "name": name,
        "scopes": scopes.replace(",", " ").split(),
        "families": tools.replace(",", " ").split(),
        "kind": kind,
    }
    actor, own = session.actor, session.token
    settings["confirm"] = confirm or (own.confirm if own else Token.Confirm.NEVER.value)
    if own:
        issued = session.expect(
            issue_lesser_token(actor, own, **settings, expires_in=expires_in or LONGEST_LIFE)
        )
    else:
        issued = session.expect(
            issue_token(actor.user, **settings, expires_in=expires_in, door=Event.Door.TERMINAL)
        )
    if session.as_json:
        print_json({"name": name, "token": issued.text})
    else:
        echo(issued.text)


@subcommand("list", examples="cronty token list")
def list_command(session: Session) -> None:
    """List the tokens that are not revoked, the newest first."""
    print_list(
        _tokens(session),
        lambda token: _as_json(token, session.zone),
        ("name", "kind", "scopes", "expires", "last used"),
        lambda token: _row(session, token),
        shrink="name",
        if_none="No tokens.",
    )


@subcommand("revoke", examples="cronty token revoke phone")
@click.argument("name")
def revoke_command(session: Session, name: str) -> None:
    """Revoke the token NAME: the agent that uses it is refused from now on."""
    tokens = {token.name: token for token in _tokens(session)}
    if name not in tokens:
        raise Failure(
            f"Token not found: {name}.{did_you_mean(name, tokens)}", ExitCode.NOT_FOUND, code=Kind.NOT_FOUND
        )
    actor, own, token_id = session.actor, session.token, tokens[name].pk
    if own:
        revoked = session.expect(revoke_own_token(actor, own, token_id))
    else:
        revoked = session.expect(revoke_token(actor.user, token_id, door=Event.Door.TERMINAL))
    answer(_as_json(revoked, session.zone), f"Revoked: {revoked.name}", style="")


for command in (create_command, list_command, revoke_command):
    token_command.add_command(command)


def _tokens(session: Session) -> QuerySet[Token]:
    return Token.objects.filter(owner=session.actor.user.pk, revoked_at=None)


def _row(session: Session, token: Token) -> list[str]:
    is_expired = token.expires_at is not None and token.expires_at <= session.now
    expires = clock_text(token.expires_at, session.zone) or "never"
    return [
        token.name,
        "connected app" if token.oauth_client else token.kind,
        ", ".join(token.scopes),
        f"expired {expires}" if is_expired else expires,
        clock_text(token.last_used_at, session.zone) or "never",
    ]


def _as_json(token: Token, zone: str) -> dict[str, Any]:
    return {
        **token_json(token, zone),
        "revoked_at": iso_in(token.revoked_at, zone),
        "is_connected_app": token.oauth_client is not None,
    }
