"""manage.py issue_token: create a token for an agent and print it once."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from schedules.management.base_command import CrontyCommand
from schedules.management.database import readable_database
from schedules.management.secret_key import refuse_foreign_secret_key
from schedules.models import Event, Token
from schedules.result import Err
from schedules.services import issue_token
from schedules.services.people.profiles import find_user
from schedules.services.people.tokens import FAMILIES, SCOPES
from schedules.web.messages import message_of
from schedules.when.phrases import PhraseError, parse_delay


class Command(CrontyCommand):
    help = "Create a token for an agent and print it, once, on standard output."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", required=True, help="the user for whom the agent acts")
        parser.add_argument("--name", required=True, help="a name for the agent, like laptop")
        parser.add_argument("--scopes", default=",".join(SCOPES), help="read, or read,write (the default)")
        parser.add_argument("--expires-in", help="like 365d or 12h; default: never")
        parser.add_argument("--kind", default=Token.Kind.CONVERSATION, choices=Token.Kind.values)
        parser.add_argument(
            "--confirm",
            default=Token.Confirm.NEVER,
            choices=Token.Confirm.values,
            help="which of the jobs that it makes wait until a person confirms them; default: never",
        )
        parser.add_argument(
            "--tools", default="", help=f"tool families to offer; default: {','.join(FAMILIES)}"
        )

    def handle(self, *args: Any, **options: Any) -> str:
        with readable_database():
            refuse_foreign_secret_key()
            user = find_user(options["user"])
        if user is None:
            raise CommandError(f"--user: there is no active user called {options['user']!r}.")
        try:
            expires_in = parse_delay(options["expires_in"]) if options["expires_in"] else None
        except PhraseError as error:
            raise CommandError(f"--expires-in: {error}") from error
        issued = issue_token(
            user,
            name=options["name"],
            scopes=_words(options["scopes"]),
            families=_words(options["tools"]),
            expires_in=expires_in,
            kind=options["kind"],
            confirm=options["confirm"],
            door=Event.Door.COMMAND,
        )
        if isinstance(issued, Err):
            raise CommandError(issued.named_reasons or message_of(issued))
        return issued.value.text


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split()
