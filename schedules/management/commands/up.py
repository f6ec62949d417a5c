"""manage.py up: run the web pages and a cluster with one command."""

import shlex
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import Error, connections
from django.urls import reverse

from schedules import __version__, clock
from schedules.engine import sqlite_file
from schedules.engine.clusters import describe_surplus_clusters
from schedules.management.arguments import host_in_url, port, refuse_address, refuse_public_debug
from schedules.management.base_command import CrontyCommand
from schedules.management.preparation import (
    DatabaseAwayError,
    prepare_in_child_process,
    prepare_when_possible,
)
from schedules.models import Execution
from schedules.services.installation.local_server import local_server, omitted_variable_note
from schedules.services.installation.setup import FirstUser, create_check
from schedules.services.people.preferences import MEND, why_unalerted
from schedules.services.people.profiles import profile_of, superusers
from schedules.worker.database_errors import reason_of
from schedules.worker.supervisor import Supervisor

WAIT_SECONDS = 60.0


class Command(CrontyCommand):
    help = "Migrate, create the first user, and run the web pages and a cluster until Ctrl-C."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default=settings.CRONTY_HOST)
        parser.add_argument("--port", type=port, default=str(settings.CRONTY_PORT))
        parser.add_argument("--workers", type=int, help="How many plain functions run at once.")
        parser.add_argument("--no-web", action="store_true", help="Run a cluster only.")
        parser.add_argument("--no-cluster", action="store_true", help="Run the web pages only.")
        parser.add_argument("--check", action="store_true", help="Start, fire one job end to end, stop.")

    def handle(self, *args: Any, **options: Any) -> None:
        self._check_options(options)
        self._say("Preparing the database and the files of the pages …")
        first = _prepare_for_check() if options["check"] else prepare_when_possible()
        parts = {"no_web": "the web pages", "no_cluster": "a cluster"}
        self._say(f"Starting {' and '.join(part for name, part in parts.items() if not options[name])} …")
        # Remember the file, so that all children can notice that it was replaced.
        sqlite_file.is_replaced()
        # The children open their own connections.
        operator, unalerted = _operator()
        connections.close_all()
        supervisor = Supervisor(_commands(options))
        try:
            if options["check"]:
                self._check(supervisor, options)
                return
            if not options["no_web"]:
                supervisor.run(lambda: _answers(_health_url(options)))
            # Even after a signal, because the password is shown only here.
            if first or not supervisor.stops:
                self._say(greeting(options, first, operator, unalerted))
            supervisor.run()
        finally:
            supervisor.stop()

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        # Standard output to a file or pipe, as under a service manager, is buffered.
        self.stdout.flush()

    def _check_options(self, options: dict[str, Any]) -> None:
        refuse_public_debug(options["host"])
        if options["no_web"] and options["no_cluster"]:
            raise CommandError("--no-web and --no-cluster leave nothing to run.")
        if options["workers"] not in (None, settings.CRONTY_WORKERS):
            raise CommandError("--workers: set CRONTY_WORKERS in the settings of this project instead.")
        if not options["no_web"]:
            refuse_address(options["host"], options["port"])

    def _check(self, supervisor: Supervisor, options: dict[str, Any]) -> None:
        """Wait for the web process, let the cluster run one job, and check its outcome in the ledger."""
        url = _health_url(options)
        if not options["no_web"] and not _run_until(supervisor, lambda: _answers(url)):
            raise CommandError(f"The web process did not come up at {url}.")
        try:
            if warning := describe_surplus_clusters(clock.now()):
                self.stderr.write(warning)
            runs = Execution.objects.filter(job=create_check())
            _run_until(supervisor, runs.filter(status__in=Execution.FINAL).exists)
            run = runs.first()
        except Error as error:
            raise CommandError(f"The database cannot be used ({reason_of(error)}).") from error
        if run is None:
            raise CommandError("The test job was not fired.")
        if run.status != Execution.Status.SUCCEEDED:
            raise CommandError(f"The test job ended as {run.status}: {run.error or run.reason}")
        late = run.lateness.total_seconds() * 1000 if run.lateness else 0
        self.stdout.write(f"ok: a job was fired, run and recorded, {late:.0f} ms after it was due")


def _run_until(supervisor: Supervisor, is_done: Callable[[], bool]) -> bool:
    """Run the children until the condition holds; return False after a signal or a time-out."""
    deadline = time.monotonic() + WAIT_SECONDS
    is_true = False

    def is_over() -> bool:
        nonlocal is_true
        is_true = is_done()
        return is_true or time.monotonic() > deadline

    supervisor.run(is_over)
    return is_true


def _health_url(options: dict[str, Any]) -> str:
    return f"http://{host_in_url(options['host'])}:{options['port']}{reverse('schedules:alive')}"


def _operator() -> tuple[str, str]:
    """Return the name of the oldest superuser, and that alerts do not reach them; a placeholder if there is none."""
    try:
        operator = superusers().first()
        if operator:
            return operator.get_username(), why_unalerted(profile_of(operator))
    except Error:
        pass
    return "NAME", ""


def _prepare_for_check() -> FirstUser | None:
    """Prepare without a long wait, and without a first user, because nobody would see the password."""
    try:
        return prepare_in_child_process(with_first_user=False, max_wait=WAIT_SECONDS)
    except DatabaseAwayError as away:
        raise CommandError(f"DATABASE_URL: the database cannot be used ({away}).") from away


def greeting(options: dict[str, Any], first: FirstUser | None, operator: str, unalerted: str = "") -> str:
    """Return the message for the operator: the address, the first login, how to connect an agent, what is missing."""
    url = settings.CRONTY_URL
    if (options["host"], options["port"]) != (settings.CRONTY_HOST, settings.CRONTY_PORT):
        url = f"http://{host_in_url(options['host'])}:{options['port']}"
    where = "a cluster, without pages" if options["no_web"] else url
    lines = ["", f"  Cronty {__version__} is up:  {where}", ""]
    if first and first.password:
        lines += [f"  Log in as {first.name}, password {first.password}", "  (shown only this once)", ""]
    elif first:
        lines += [f"  Log in as {first.name}, with the password in CRONTY_ADMIN_PASSWORD", ""]
    lines += [
        "  Connect an agent:",
        f"    {_claude_command(local_server(operator))}",
        *([f"    ({note})"] if (note := omitted_variable_note()) else []),
        *([] if options["no_web"] else [_other_way_to_connect(url)]),
        "",
        *([f"  {unalerted}", f"    {MEND}", ""] if unalerted else []),
        "  Ctrl-C stops everything.",
        "",
    ]
    return "\n".join(lines)


def _other_way_to_connect(url: str) -> str:
    return f"    or create a token at {url}{reverse('schedules:connect')} for {url}/mcp"


def _claude_command(server: dict[str, Any]) -> str:
    variables = [
        word for name, value in server.get("env", {}).items() for word in ("--env", f"{name}={value}")
    ]
    return shlex.join(
        [
            "claude",
            "mcp",
            "add",
            "--scope",
            "user",
            "cronty",
            *variables,
            "--",
            server["command"],
            *server["args"],
        ]
    )


def _commands(options: dict[str, Any]) -> list[list[str]]:
    web = ["web", "--host", options["host"], "--port", str(options["port"])]
    return [
        command
        for command, is_left_out in ((web, options["no_web"]), (["qcluster"], options["no_cluster"]))
        if not is_left_out
    ]


def _answers(url: str) -> bool:
    parts = urlsplit(url)
    connection = HTTPConnection(parts.netloc, timeout=2)
    try:
        connection.request("GET", parts.path)
        return connection.getresponse().status == 200
    except (HTTPException, OSError):
        return False
    finally:
        connection.close()
