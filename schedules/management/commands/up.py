"""manage.py up: run the web pages and a cluster with one command."""

import multiprocessing
import os
import shlex
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error, connections
from django.urls import reverse

from schedules import __version__
from schedules.management.arguments import host_in_url, port
from schedules.models import Execution
from schedules.services.local_server import local_server, omitted_variable_note
from schedules.services.people import superusers
from schedules.services.setup import FirstUser, create_check, ensure_first_user, ensure_system_job
from schedules.worker.supervisor import Supervisor

WAIT_SECONDS = 60.0
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Command(BaseCommand):
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
        _require_database()
        _run_in_child_process(prepare)
        # A check must not generate a password, because nobody would see it.
        first = None if options["check"] else ensure_first_user()
        operator = superusers().first()
        # The children open their own connections.
        connections.close_all()
        if options["workers"]:
            os.environ["CRONTY_WORKERS"] = str(options["workers"])
        # The pages answer only to hosts that the settings allow.
        os.environ |= {"CRONTY_HOST": options["host"], "CRONTY_PORT": str(options["port"])}
        supervisor = Supervisor(_commands(options))
        supervisor.start()
        try:
            if not options["no_web"]:
                self._wait_for_web(supervisor, options)
            if options["check"]:
                self._check(supervisor)
                return
            self.stdout.write(greeting(options, first, operator.get_username() if operator else "NAME"))
            if not supervisor.run():
                raise CommandError("A process of Cronty keeps dying: see the messages above.")
        finally:
            supervisor.stop()

    def _check_options(self, options: dict[str, Any]) -> None:
        if settings.DEBUG and options["host"] not in LOOPBACK:
            raise CommandError(f"--host {options['host']}: not with CRONTY_DEBUG on; use 127.0.0.1.")
        if options["no_web"] and options["no_cluster"]:
            raise CommandError("--no-web and --no-cluster leave nothing to run.")
        if not options["no_web"] and not _is_free(options["host"], options["port"]):
            raise CommandError(f"--port {options['port']}: something else listens there; choose another one.")

    def _wait_for_web(self, supervisor: Supervisor, options: dict[str, Any]) -> None:
        url = f"http://{host_in_url(options['host'])}:{options['port']}{reverse('schedules:alive')}"
        deadline = time.monotonic() + WAIT_SECONDS
        is_up = False

        def is_settled() -> bool:
            nonlocal is_up
            is_up = _answers(url)
            return is_up or time.monotonic() > deadline

        supervisor.run(is_settled)
        if not supervisor.stops and not is_up:
            raise CommandError(f"The web process did not come up at {url}.")

    def _check(self, supervisor: Supervisor) -> None:
        """Let the cluster run one job, and read the result from the ledger."""
        runs = Execution.objects.filter(job=create_check())
        deadline = time.monotonic() + WAIT_SECONDS

        def is_settled() -> bool:
            return runs.filter(status__in=Execution.FINAL).exists() or time.monotonic() > deadline

        supervisor.run(is_settled)
        run = runs.first()
        if run is None:
            raise CommandError("The test job was not fired.")
        if run.status != Execution.Status.SUCCEEDED:
            raise CommandError(f"The test job ended as {run.status}: {run.error or run.reason}")
        late = run.lateness.total_seconds() * 1000 if run.lateness else 0
        self.stdout.write(f"ok: a job was fired, run and recorded, {late:.0f} ms after it was due")


def _require_database() -> None:
    try:
        connections["default"].ensure_connection()
    except Error as error:
        reason = " ".join(str(error).split())
        raise CommandError(f"DATABASE_URL: the database cannot be used ({reason}).") from error


def prepare() -> None:
    """Update the database and the static files, and create the pruning job."""
    call_command("migrate", verbosity=0)
    # Without STATIC_ROOT, the project serves its static files in another way.
    if getattr(settings, "STATIC_ROOT", None) and not _static_files_are_fresh():
        call_command("collectstatic", verbosity=0, interactive=False)
    ensure_system_job()


def _static_files_are_fresh() -> bool:
    """Return whether no static file was added or changed since they were last collected."""
    manifest = Path(settings.STATIC_ROOT) / "staticfiles.json"
    if not manifest.exists():
        return False
    collected_at = manifest.stat().st_mtime
    sources = (Path(storage.path(name)) for finder in get_finders() for name, storage in finder.list([]))
    return all(source.stat().st_mtime < collected_at for source in sources)


def _run_in_child_process(step: Callable[[], None]) -> None:
    """Run a step in a child process, so that the supervisor does not keep its memory."""
    connections.close_all()
    process = multiprocessing.get_context("fork").Process(target=step)
    process.start()
    process.join()
    if process.exitcode:
        raise CommandError("Cronty could not be prepared: see the message above.")


def greeting(options: dict[str, Any], first: FirstUser | None, operator: str) -> str:
    """Return the message for the operator: the address, the first login, and how to connect an agent."""
    url = settings.CRONTY_URL
    if (options["host"], options["port"]) != (settings.CRONTY_HOST, settings.CRONTY_PORT):
        url = f"http://{host_in_url(options['host'])}:{options['port']}"
    lines = ["", f"  Cronty {__version__} is up:  {url}", ""]
    if first and first.password:
        lines += [f"  Log in as {first.name}, password {first.password}", "  (shown only this once)", ""]
    elif first:
        lines += [f"  Log in as {first.name}, with the password in CRONTY_ADMIN_PASSWORD", ""]
    lines += [
        "  Connect an agent:",
        f"    {_claude_command(local_server(operator))}",
        *([f"    ({note})"] if (note := omitted_variable_note()) else []),
        f"    or create a token at {url}/connect/ for {url}/mcp",
        "",
        "  Ctrl-C stops everything.",
        "",
    ]
    return "\n".join(lines)


def _claude_command(server: dict[str, Any]) -> str:
    variables = [
        word for name, value in server.get("env", {}).items() for word in ("--env", f"{name}={value}")
    ]
    return shlex.join(
        ["claude", "mcp", "add", "cronty", *variables, "--", server["command"], *server["args"]]
    )


def _commands(options: dict[str, Any]) -> list[list[str]]:
    web = ["web", "--host", options["host"], "--port", str(options["port"])]
    return [
        command
        for command, is_left_out in ((web, options["no_web"]), (["qcluster"], options["no_cluster"]))
        if not is_left_out
    ]


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=2) as answer:  # noqa: S310  # nosec B310
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def _is_free(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
