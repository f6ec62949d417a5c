"""manage.py mcp_serve: the MCP server, over standard input and output or over HTTP."""

import signal
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError

from schedules import clock, engine
from schedules.services.tokens import FAMILIES

STOP_SECONDS = 3


class Command(BaseCommand):
    help = "Serve the MCP tools to an agent: over stdio by default, over HTTP with --http."
    # Checks print, and over stdio every line on standard output is protocol.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", help="for whom the agent acts (stdio); default: the only superuser")
        parser.add_argument("--name", default="local agent", help="what the agent is called in lists (stdio)")
        parser.add_argument(
            "--read-only", action="store_true", help="offer only tools that change nothing (stdio)"
        )
        parser.add_argument(
            "--tools", help=f"families to offer, like jobs,prompts; default: {','.join(FAMILIES)}"
        )
        parser.add_argument("--http", action="store_true", help="serve over HTTP, where agents bring tokens")
        parser.add_argument("--host", default=settings.CRONTY_HOST)
        parser.add_argument("--port", type=int, default=settings.CRONTY_PORT)

    def handle(self, *args: Any, **options: Any) -> None:
        families = _families(options["tools"])
        if options["http"]:
            self.stdout.write(f"Serving MCP at http://{options['host']}:{options['port']}/mcp")
            serve_http(options["host"], options["port"], families)
        else:
            self._serve_stdio(options, families)

    def _serve_stdio(self, options: dict[str, Any], families: list[str]) -> None:
        from schedules.tools.auth import local_caller, set_local_caller
        from schedules.tools.server import build_server

        user = _user(options["user"])
        scopes = ("read",) if options["read_only"] else ("read", "write")
        set_local_caller(local_caller(user, scopes=scopes, families=families, name=options["name"]))
        if not engine.is_any_worker_running(clock.now()):
            self.stderr.write("No worker is running: nothing fires until `manage.py up` or `qcluster` runs.")
        # Python's own handler would wait for the thread that reads standard input.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        build_server(families=families).run("stdio")


def serve_http(host: str, port: int, families: list[str]) -> None:
    """Serve /mcp alone, until a signal; an open stream delays the stop by seconds at most."""
    import uvicorn

    from schedules.tools.server import build_http_app

    uvicorn.run(
        build_http_app(families=families),
        host=host,
        port=port,
        http="h11",
        log_config=None,
        timeout_graceful_shutdown=STOP_SECONDS,
    )


def _families(text: str | None) -> list[str]:
    families = [name.strip() for name in text.split(",")] if text else list(FAMILIES)
    if unknown := [name for name in families if name not in FAMILIES]:
        raise CommandError(f"--tools: {unknown[0]!r} is no family; choose from {', '.join(FAMILIES)}.")
    return families


def _user(username: str | None) -> User:
    active = User.objects.filter(is_active=True)
    if username:
        user = active.filter(username=username).first()
        if user is None:
            raise CommandError(f"--user: there is no active user called {username!r}.")
        return user
    operators = list(active.filter(is_superuser=True)[:2])
    if len(operators) != 1:
        raise CommandError("Say for whom the agent acts: --user NAME.")
    return operators[0]
