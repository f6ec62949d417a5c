"""The session of a subcommand: the user it acts for, their time zone, and how it prints."""

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, TypeVar

import click
from django.db import Error, OperationalError, ProgrammingError

from cronty_site.terminal.setup import ExitCode, Failure
from schedules import clock
from schedules.database_errors import is_outage, reason_of
from schedules.models import Event, Job
from schedules.result import Code, Err, Result
from schedules.services import Actor
from schedules.services.actors import not_found
from schedules.services.people import find_user, first_user
from schedules.services.references import public_id_of
from schedules.when.phrases import PhraseError, parse_end, parse_moment, parse_past
from schedules.when.triggers import TriggerError, load_zone

T = TypeVar("T")

EXIT_CODES = {Code.NOT_FOUND: ExitCode.NOT_FOUND}


@dataclass(frozen=True)
class Session:
    """Whoever acts in the terminal, with the moment at which the command began."""

    actor: Actor
    now: datetime
    zone: str
    as_json: bool

    def expect(self, result: Result[T]) -> T:
        """Return the value of a result; an error ends the command with its message."""
        if isinstance(result, Err):
            raise refused(result)
        return result.value

    def failure(self, message: str, exit_code: int = ExitCode.REFUSED, code: str = "") -> Failure:
        return Failure(message, exit_code, code=code)

    def confirm(self, question: str) -> None:
        """Ask the person; without a yes, the command ends here."""
        if not sys.stdin.isatty():
            raise self.failure("There is nobody to ask: use --yes.")
        if not click.confirm(question, err=True):
            raise self.failure("Nothing was changed.", code="declined")

    def job_id(self, reference: str) -> str:
        """Return the id of the job that is meant."""
        return self.expect(public_id_of(self.actor.jobs(), reference))

    def job(self, reference: str) -> Job:
        """Return the job that is meant, with its activity."""
        job_id = self.job_id(reference)
        return self.actor.job(job_id) or self.expect(not_found(job_id))

    def moment(self, text: str, option: str, zone: str | None = None, **rules: bool) -> datetime:
        """Read a time or a phrase in the zone of the user or of a job."""
        with _refusing(option):
            return parse_moment(text, now=self.now, timezone=zone or self.zone, **rules)

    def past(self, text: str, option: str, zone: str) -> datetime | date:
        """Read a moment or a day, now or before, in the zone of a job."""
        with _refusing(option):
            return parse_past(text, now=self.now, timezone=zone)

    def end(self, text: str, option: str, zone: str) -> datetime:
        """Read the end of a period in the zone of a job; a date alone includes its whole day."""
        with _refusing(option):
            return parse_end(text, now=self.now, timezone=zone)


def refused(error: Err) -> Failure:
    """Turn an error of the services into a failure of the command."""
    # Here, arguments have no field of their own.
    words = error.message.removeprefix("kwargs: ")
    return Failure(words, EXIT_CODES.get(error.code, ExitCode.REFUSED), code=error.code)


@contextmanager
def _refusing(option: str) -> Iterator[None]:
    """Refuse a text that is not understood in the words of its option."""
    try:
        yield
    except PhraseError as error:
        raise click.BadParameter(str(error), param_hint=option) from error


def check_zone(timezone: str) -> str:
    try:
        load_zone(timezone)
    except TriggerError as error:
        raise click.BadParameter(error.reason, param_hint="--timezone") from error
    return timezone


def subcommand(
    name: str, *, examples: str = "", **settings: Any
) -> Callable[[Callable[..., Any]], click.Command]:
    """Declare a subcommand whose function gets the session first, and that has --user and --json."""
    epilog = "\b\nExamples:\n" + "\n".join(f"  {line.strip()}" for line in examples.strip().splitlines())

    def declare(function: Callable[..., Any]) -> click.Command:
        @functools.wraps(function)
        def run(user: str | None, as_json: bool, **parameters: Any) -> Any:
            try:
                return function(_session(user, as_json), **parameters)
            except (OperationalError, ProgrammingError) as error:
                raise _not_ready(error) from error

        options = [
            click.option(
                "--user", envvar="CRONTY_USER", metavar="NAME", help="Act as this user.  [default: the first]"
            ),
            click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        ]
        decorated: Any = run
        for option in options:
            decorated = option(decorated)
        settings.setdefault("context_settings", {})["help_option_names"] = ["-h", "--help"]
        command: Any = click.command(name, epilog=epilog if examples else None, **settings)
        declared: click.Command = command(decorated)
        return declared

    return declare


def _session(user: str | None, as_json: bool) -> Session:
    found = find_user(user) if user else first_user()
    if found is None:
        words = (
            f"There is no active user called {user!r}." if user else "There is no user yet: run `cronty up`."
        )
        raise Failure(words, ExitCode.NOT_READY, code="no_user")
    actor = Actor(found, Event.Door.TERMINAL)
    return Session(actor, clock.now(), actor.read_profile().zone, as_json)


def _not_ready(error: Error) -> Failure:
    reason = reason_of(error)
    words = (
        f"The database does not answer ({reason})."
        if is_outage(error)
        else f"Run `cronty up` first ({reason})."
    )
    return Failure(words, ExitCode.NOT_READY, code="not_ready")
