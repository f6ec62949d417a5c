"""manage.py web: the pages, the admin and /mcp in one process."""

import signal
import socket
from contextlib import suppress
from typing import Any

import uvicorn
from django.conf import settings
from django.contrib.staticfiles.storage import staticfiles_storage
from django.core.management.base import BaseCommand, CommandError, CommandParser

from schedules.management.arguments import port
from schedules.worker import parent_death

STOP_SECONDS = 3
KEEP_ALIVE_SECONDS = 75


class Command(BaseCommand):
    help = "Serve the web pages, the admin and /mcp."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default=settings.CRONTY_HOST)
        parser.add_argument("--port", type=port, default=str(settings.CRONTY_PORT))
        parser.add_argument("--with-parent", action="store_true", help="Stop when the parent process ends.")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["with_parent"]:
            parent_death.tie_to_parent(signal.SIGTERM)
        elif not _are_static_files_collected():
            raise CommandError(
                "Nothing is prepared here yet: `manage.py up` does it, or `manage.py migrate` and `collectstatic`."
            )
        serve("cronty_site.asgi:application", host=options["host"], port=options["port"])


def _are_static_files_collected() -> bool:
    """Tell whether pages can name their static files; while debugging they need no manifest for that."""
    return settings.DEBUG or getattr(staticfiles_storage, "hashed_files", None) != {}


class Server(uvicorn.Server):
    """Ends the agents' subscriptions before it waits for open answers: theirs would stay open for ever."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        from schedules.mcp.subscriptions import end_streams

        end_streams()
        await super().shutdown(sockets)


def serve(app: Any, *, host: str, port: int) -> None:
    """Serve an ASGI app until a signal; what is under way then has a few seconds to finish."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http="h11",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=STOP_SECONDS,
        # Longer than proxies and clients keep a connection: one that is closed under a request is an error to them.
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    # Imported before there is a loop, as Django expects it.
    config.load_app()
    # The signal is raised again when the server has stopped.
    with suppress(KeyboardInterrupt):
        Server(config).run()
