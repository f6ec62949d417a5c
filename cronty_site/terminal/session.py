"""The session of a subcommand: where its operations are called, who acts, and the output format."""

import functools
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem
from django.db import DatabaseError, Error, InterfaceError, OperationalError, ProgrammingError

from cronty_site import environment
from cronty_site.terminal.failures import ExitCode, Failure, not_started
from cronty_site.terminal.operations import Elsewhere, Here, Refusal, remote_server
from cronty_site.terminal.output import AS_JSON
from schedules import clock
from schedules.models import Event
from schedules.services.people.profiles import find_user, first_user
from schedules.services.permissions import Actor
from schedules.worker.database_errors import is_outage, reason_of

MAX_COMPLETIONS = 50


class Session:
    """What a command works with: the operations, the moment when it started, and the output format."""

    def __init__(self, place: Here | Elsewhere, *, as_json: bool) -> None:
        self._place = place
        self.now: datetime = clock.now()
        self.as_json = as_json

    @property
    def is_remote(self) -> bool:
        return self._place.is_remote

    @cached_property
    def me(self) -> dict[str, Any]:
        """Who acts, their time zone, and whether a worker is running."""
        return dict(self.call("show_me"))

    @property
    def zone(self) -> str:
        return str(self.me["timezone"])

    def call(self, name: str, wrong: Mapping[str, str] | None = None, /, **values: Any) -> Any:
        """Return the document of an operation; values that are None are left out.

        A refusal of fields that `wrong` calls by their options is wrong usage; any other ends the command.
        """
        try:
            return self._place.call(name, {key: value for key, value in values.items() if value is not None})
        except Refusal as refusal:
            for field, option in (wrong or {}).items():
                if field in refusal.errors:
                    raise click.BadParameter(refusal.errors[field], param_hint=option) from refusal
            raise

    def listed(
        self, name: str, key: str, limit: int, wrong: Mapping[str, str] | None = None, /, **values: Any
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return the first rows of a list, and its last page; the API answers page by page."""
        rows: list[Any] = []
        cursor: str | None = None
        while True:
            size = min(max(limit - len(rows), 1), self._place.page_size)
            page = self.call(name, wrong, limit=size, cursor=cursor, **values)
            rows += page[key][: limit - len(rows)]
            cursor = page["next_cursor"]
            if cursor is None or len(rows) >= limit:
                return rows, page


_USER = click.Option(
    ["--user"], envvar="CRONTY_USER", metavar="NAME", help="Act as this user.  [default: the first]"
)
_JSON = click.Option(["--json", "as_json"], is_flag=True, help="Print JSON.")


def subcommand(
    name: str, *, examples: str = "", is_local: bool = False, **settings: Any
) -> Callable[[Callable[..., Any]], click.Command]:
    """Declare a subcommand with --user and --json; its function gets the session first.

    One that `is_local` works on this machine, whatever CRONTY_URL says.
    """
    epilog = "\b\nExamples:\n" + "\n".join(f"  {line.strip()}" for line in examples.strip().splitlines())

    def declare(function: Callable[..., Any]) -> click.Command:
        @functools.wraps(function)
        def run(user: str | None, as_json: bool, **parameters: Any) -> Any:
            click.get_current_context().meta[AS_JSON] = as_json
            try:
                place = _elsewhere() or Here(_actor(user)) if not is_local else Here(_actor(user))
                return function(Session(place, as_json=as_json), **parameters)
            except (OperationalError, ProgrammingError, InterfaceError) as error:
                raise _not_ready(error) from error
            except DatabaseError as error:
                # SQLite reports a damaged file like this; subclasses are bugs.
                if type(error) is not DatabaseError:
                    raise
                raise _not_ready(error) from error

        make: Any = click.command(
            name, params=[_JSON, _USER], epilog=epilog if examples else None, **settings
        )
        command: click.Command = make(run)
        return command

    return declare


def _elsewhere() -> Elsewhere | None:
    server = remote_server()
    if server and click.get_current_context().get_parameter_source("user") == ParameterSource.COMMANDLINE:
        raise Failure("The token decides who acts on a server: leave out --user.")
    return Elsewhere(server) if server else None


def _actor(user: str | None) -> Actor:
    if environment.missing:
        raise not_started(environment.missing[-1])
    person = find_user(user) if user else first_user()
    if person is None:
        problem = (
            f"There is no active user called {user!r}." if user else "There is no user yet: run `cronty up`."
        )
        raise Failure(problem, ExitCode.NOT_READY, code="no_user")
    return Actor(person, Event.Door.TERMINAL)


def _not_ready(error: Error) -> Failure:
    reason = reason_of(error)
    problem = (
        f"The database does not answer ({reason})."
        if is_outage(error)
        else f"Run `cronty up` first ({reason})."
    )
    return Failure(problem, ExitCode.NOT_READY, code="not_ready")


def complete_job(context: click.Context, parameter: click.Parameter, beginning: str) -> list[CompletionItem]:
    """Complete the name of a job of this machine."""
    from schedules.services.job_list import jobs_named_like  # noqa: PLC0415  (only the tab key needs it)

    with suppress(Error, Failure):
        names = jobs_named_like(
            _actor(context.params.get("user")), beginning, "name", "task", limit=MAX_COMPLETIONS
        )
        return [CompletionItem(name, help=task) for name, task in names]
    return []


def complete_task(context: click.Context, parameter: click.Parameter, beginning: str) -> list[CompletionItem]:
    """Complete the name of a task."""
    from schedules.tasks import registry  # noqa: PLC0415  (the same)

    tasks = [task for task in registry.all_tasks() if task.name.startswith(beginning)]
    return [CompletionItem(task.name, help=task.title) for task in tasks]
