"""manage.py mcp_serve: the MCP server, over standard input and output or over HTTP."""

import signal
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.management.base import CommandError
from django.db import DatabaseError, connections
from django.utils.module_loading import import_string

from schedules import clock, engine, limits
from schedules.management.arguments import host_in_url, port, refuse_address
from schedules.management.base_command import CrontyCommand
from schedules.management.database import readable_database
from schedules.management.secret_key import refuse_foreign_secret_key, stop_with_foreign_secret_key
from schedules.models import Event
from schedules.services.installation.command_words import how_to_run
from schedules.services.people.profiles import find_user, superusers
from schedules.services.people.tokens import FAMILIES


class Command(CrontyCommand):
    help = "Serve the MCP tools to an agent: over stdio by default, over HTTP with --http."
    # Checks print, and over stdio standard output carries only the protocol.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        self.add_stdio_arguments(parser)
        parser.add_argument(
            "--http", action="store_true", help="serve over HTTP, where every agent needs a token"
        )
        parser.add_argument("--host", default=settings.CRONTY_HOST)
        parser.add_argument("--port", type=port, default=str(settings.CRONTY_PORT))

    def add_stdio_arguments(self, parser: ArgumentParser) -> None:
        """Add the arguments of a server over standard input and output; over HTTP, only --tools is accepted."""
        parser.add_argument(
            "--user", help="user for whom the agent acts (stdio); default: the only superuser"
        )
        parser.add_argument("--name", help="name of the agent in lists (stdio)")
        parser.add_argument(
            "--read-only", action="store_true", help="offer only tools that change nothing (stdio)"
        )
        parser.add_argument(
            "--tools", help=f"families to offer, like jobs,prompts; default: {','.join(FAMILIES)}"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        families = _families(options["tools"])
        if options["http"]:
            _refuse_stdio_options(options)
            stop_with_foreign_secret_key()
            refuse_address(options["host"], options["port"])
            self._serve_http(options, families)
        else:
            self._serve_stdio(options, families)

    def _serve_http(self, options: dict[str, Any], families: list[str]) -> None:
        from schedules.mcp.http import build_http_app

        self._warn_if_nothing_fires()
        host, port = options["host"], options["port"]
        name = host_in_url(host)
        self.stdout.write(f"Serving MCP at http://{name}:{port}/mcp")
        # Another process may wait for this line at the end of a pipe.
        self.stdout.flush()
        serve = import_string(settings.CRONTY_SERVER)
        serve(build_http_app(families=families, hosts=[name]), host=host, port=port)

    def _serve_stdio(self, options: dict[str, Any], families: list[str]) -> None:
        from schedules.mcp.auth import LOCAL_NAME, local_caller, set_local_caller
        from schedules.mcp.server import build_server

        server = build_server(families=families)
        name = LOCAL_NAME if options["name"] is None else _name(options["name"])
        user = _user(options["user"])
        refuse_foreign_secret_key()
        scopes = ("read",) if options["read_only"] else ("read", "write")
        set_local_caller(local_caller(user, scopes=scopes, families=families, name=name))
        self._warn_if_nothing_fires()
        # Python's default handler would wait for the thread that reads standard input.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        server.run("stdio")

    def _warn_if_nothing_fires(self) -> None:
        try:
            if not engine.is_any_cluster_running(clock.now()):
                self.stderr.write(f"No worker is running: nothing fires until `{how_to_run('up')}` runs.")
        except DatabaseError as error:
            # The database may start later; until then, every call reports the problem.
            self.stderr.write(f"The database does not answer: {error}")
        # The tools run in another thread, which opens its own connection.
        connections.close_all()


def _refuse_stdio_options(options: dict[str, Any]) -> None:
    """Refuse options that, over HTTP, each token sets."""
    alternatives = {
        "user": "`issue_token --user NAME` sets the user for whom an agent acts",
        "name": "`issue_token --name NAME` sets the name of an agent",
        "read_only": "`issue_token --scopes read` creates a token that cannot change anything",
    }
    for option, alternative in alternatives.items():
        if options[option] not in (None, False):
            raise CommandError(f"--{option.replace('_', '-')}: not with --http; {alternative}.")


def _name(text: str) -> str:
    longest = Event._meta.get_field("actor").max_length or 0
    if not 0 < len(text.strip()) <= longest or limits.line_problem(text):
        raise CommandError(f"--name: give it 1 to {longest} printable characters, like laptop.")
    return text


def _families(text: str | None) -> list[str]:
    families = [name.strip() for name in text.split(",")] if text else list(FAMILIES)
    if unknown := [name for name in families if name not in FAMILIES]:
        raise CommandError(
            f"--tools: {unknown[0]!r} is not a tool family; choose from {', '.join(FAMILIES)}."
        )
    return families


def _user(username: str | None) -> AbstractBaseUser:
    with readable_database():
        users = [find_user(username)] if username else list(superusers()[:2])
    if users == [None]:
        raise CommandError(f"--user: there is no active user called {username!r}.")
    if len(users) != 1 or users[0] is None:
        raise CommandError("Name the user for whom the agent acts: --user NAME.")
    return users[0]
