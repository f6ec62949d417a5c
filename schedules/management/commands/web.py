"""manage.py web: the pages, the admin and /mcp in one process."""

import os
import signal
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.storage import staticfiles_storage
from django.core.asgi import get_asgi_application
from django.core.management.base import CommandError, CommandParser
from django.utils.module_loading import import_string

from schedules.management.arguments import port, refuse_address, refuse_public_debug
from schedules.management.base_command import CrontyCommand
from schedules.management.running_server import note_address
from schedules.management.secret_key import stop_with_foreign_secret_key
from schedules.mcp.on_demand import McpOnDemand
from schedules.services.installation.command_words import how_to_run
from schedules.worker import parent_death

# Pages have a lower priority than the cluster beside them.
NICENESS = 10


class Command(CrontyCommand):
    help = "Serve the web pages, the admin and /mcp."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default=settings.CRONTY_HOST)
        parser.add_argument("--port", type=port, default=str(settings.CRONTY_PORT))
        parser.add_argument(
            "--with-parent", type=int, metavar="PID", help="Stop when this parent process ends."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        refuse_public_debug(options["host"])
        if options["with_parent"]:
            parent_death.end_with_parent(options["with_parent"], signal.SIGTERM)
            # On a busy machine, due jobs take precedence over pages.
            os.nice(NICENESS)
        elif not _are_static_files_collected():
            raise CommandError(
                f"The static files are missing: run `{how_to_run('up')}`, or `migrate` and `collectstatic`."
            )
        stop_with_foreign_secret_key()
        refuse_address(options["host"], options["port"])
        if folder := getattr(settings, "CRONTY_DATA", None):
            note_address(folder, settings.CRONTY_URL)
        import_string(settings.CRONTY_SERVER)(_application(), host=options["host"], port=options["port"])


def _application() -> Any:
    """Return the project's ASGI application, or build one from its pages and /mcp."""
    if path := getattr(settings, "ASGI_APPLICATION", None):
        return import_string(path)
    pages: Any = get_asgi_application()
    return McpOnDemand(pages)


def _are_static_files_collected() -> bool:
    """Return whether pages can find their static files; with DEBUG, they need no manifest."""
    return settings.DEBUG or getattr(staticfiles_storage, "hashed_files", None) != {}
