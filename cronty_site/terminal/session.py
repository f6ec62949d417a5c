"""The session of a subcommand: its user, their time zone, and the output format; and how to declare a subcommand."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from django.db import DatabaseError, Error, InterfaceError, OperationalError, ProgrammingError

from cronty_site import environment
from cronty_site.terminal.consoles import current_console
from cronty_site.terminal.failures import ExitCode, Failure, did_you_mean, not_started
from cronty_site.terminal.messages import message_of
from cronty_site.terminal.output import AS_JSON, line
from schedules import clock
from schedules.models import Event, Job, Token
from schedules.models.jobs import JobQuerySet
from schedules.result import Err, Kind, Result
from schedules.services import Actor
from schedules.services.files.sources import sources_of
from schedules.services.jobs.references import NUMBER, looks_like_public_id, newest_names, public_id_of
from schedules.services.people.profiles import find_user, first_user
from schedules.services.permissions import not_found
from schedules.spec.readers import read_zone
from schedules.when.phrases import PhraseError
from schedules.when.triggers import TriggerError
from schedules.worker.database_errors import is_outage, reason_of

T = TypeVar("T")

# How many job names are searched for a suggestion.
MAX_NAMES = 10_000


@dataclass(frozen=True)
class Session:
    """Who acts in the terminal, and when the command started."""

    actor: Actor
    now: datetime
    zone: str
    as_json: bool
    token: Token | None = None
    """The token of a command that was sent from another machine."""

    def expect(self, result: Result[T]) -> T:
        """Return the value of a result; an error ends the command with its message."""
        if isinstance(result, Err):
            raise refused(result)
        return result.value

    def confirm(self, question: str) -> None:
        """Ask the person for confirmation; without a yes, the command ends."""
        if not current_console().do("confirm", question, as_json=self.as_json):
            raise Failure("Nothing was changed.", code="declined")

    def ask_secret(self, question: str) -> str:
        """Prompt for a value that is not shown while it is typed."""
        return str(current_console().do("ask_secret", question, as_json=self.as_json))

    def job_id(self, reference: str) -> str:
        """Return the id of the job with this reference."""
        return self.expect(self.find_id(self.actor.jobs(), reference))

    def find_id(self, jobs: JobQuerySet, reference: str) -> Result[str]:
        """Return the id of one of these jobs; the error for an unknown name suggests a similar one."""
        match = public_id_of(jobs, reference)
        if isinstance(match, Err) or looks_like_public_id(match.value):
            return match
        names = newest_names(jobs, MAX_NAMES)
        hint = "" if NUMBER.fullmatch(match.value) else did_you_mean(match.value, names, '"{}"')
        return replace(not_found(match.value), subject=f"{match.value}{hint and '.'}{hint}")

    def job(self, reference: str) -> Job:
        """Return the job with this reference, and its activity."""
        job_id = self.job_id(reference)
        return self.actor.job(job_id) or self.expect(not_found(job_id))

    def check_source(self, name: str | None) -> None:
        """Refuse a source that no job has; the error suggests a similar one."""
        sources = sources_of(self.actor) if name is not None else []
        if name is not None and name not in sources:
            raise Failure(
                f"No job has the source {line(name)}.{did_you_mean(name, sources)}",
                ExitCode.NOT_FOUND,
                code=Kind.NOT_FOUND,
            )

    def read(self, parse: Callable[..., T], text: str, option: str, zone: str, **rules: bool) -> T:
        """Parse a moment, a day or a schedule; invalid text is wrong usage of this option."""
        try:
            return parse(text, now=self.now, timezone=zone, **rules)
        except (PhraseError, TriggerError) as error:
            raise click.BadParameter(str(error), param_hint=option) from error


def refused(error: Err) -> Failure:
    """Turn an error of a service into a failure of the command."""
    exit_code = ExitCode.NOT_FOUND if error.kind == Kind.NOT_FOUND else ExitCode.REFUSED
    return Failure(message_of(error), exit_code, code=error.kind)


def check_zone(timezone: str) -> str:
    try:
        return read_zone(timezone, clock.now())
    except TriggerError as error:
        raise click.BadParameter(error.reason, param_hint="--timezone") from error


_USER = click.Option(
    ["--user"], envvar="CRONTY_USER", metavar="NAME", help="Act as this user.  [default: the first]"
)
_JSON = click.Option(["--json", "as_json"], is_flag=True, help="Print JSON.")


def subcommand(
    name: str, *, examples: str = "", **settings: Any
) -> Callable[[Callable[..., Any]], click.Command]:
    """Declare a subcommand with --user and --json; its function gets the session first."""
    epilog = "\b\nExamples:\n" + "\n".join(f"  {line.strip()}" for line in examples.strip().splitlines())

    def declare(function: Callable[..., Any]) -> click.Command:
        @functools.wraps(function)
        def run(user: str | None, as_json: bool, **parameters: Any) -> Any:
            click.get_current_context().meta[AS_JSON] = as_json
            try:
                return function(_session(user, as_json), **parameters)
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


def _session(user: str | None, as_json: bool) -> Session:
    if caller := current_console().caller:
        if click.get_current_context().get_parameter_source("user") == ParameterSource.COMMANDLINE:
            raise Failure("The token decides who acts on a server: leave out --user.")
        return Session(caller.actor, clock.now(), caller.actor.read_profile().zone, as_json, caller.token)
    if environment.missing:
        raise not_started(environment.missing[-1])
    person = find_user(user) if user else first_user()
    if person is None:
        problem = (
            f"There is no active user called {user!r}." if user else "There is no user yet: run `cronty up`."
        )
        raise Failure(problem, ExitCode.NOT_READY, code="no_user")
    actor = Actor(person, Event.Door.TERMINAL)
    return Session(actor, clock.now(), actor.read_profile().zone, as_json)


def _not_ready(error: Error) -> Failure:
    reason = reason_of(error)
    problem = (
        f"The database does not answer ({reason})."
        if is_outage(error)
        else f"Run `cronty up` first ({reason})."
    )
    return Failure(problem, ExitCode.NOT_READY, code="not_ready")
