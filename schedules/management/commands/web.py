"""manage.py web: the pages, the admin and /mcp in one process."""

import signal
from typing import Any

import uvicorn
from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from schedules import lifeline


class Command(BaseCommand):
    help = "Serve the web pages, the admin and /mcp."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default=settings.CRONTY_HOST)
        parser.add_argument("--port", type=int, default=settings.CRONTY_PORT)
        parser.add_argument("--with-parent", action="store_true", help="Stop when the parent process ends.")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["with_parent"]:
            lifeline.tie_to_parent(signal.SIGTERM)
        uvicorn.run(
            "cronty_site.asgi:application",
            host=options["host"],
            port=options["port"],
            http="h11",
            log_config=None,
            access_log=False,
            # An agent's open subscription would hold the stop for ever.
            timeout_graceful_shutdown=3,
        )
