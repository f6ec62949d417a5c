"""The session of a subcommand: the user it acts for, their time zone, and how it prints."""

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, TypeVar

import click
from django.db import DatabaseError, Error, InterfaceError, OperationalError, ProgrammingError

from cronty_site import environment
from cronty_site.terminal.output import AS_JSON, line, print_message
from cronty_site.terminal.setup import ExitCode, Failure, not_started
from cronty_site.terminal.suggestions import did_you_mean
from schedules import clock
from schedules.models import Event, Job
from schedules.models.jobs import JobQuerySet
from schedules.result import Code, Err, Result
from schedules.services import Actor
from schedules.services.files.sources import sources_of
from schedules.services.jobs.references import NUMBER, looks_like_public_id, public_id_of
from schedules.services.people.profiles import find_user, first_user
from schedules.services.permissions import not_found
from schedules.when.phrases import PhraseError, parse_end, parse_moment, parse_past
from schedules.when.triggers import TriggerError, load_zone
from schedules.worker.database_errors import is_outage, reason_of

T = TypeVar("T")

# Among how many jobs the name is looked for that was probably meant.
MOST_NAMES = 10_000
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
        if self.as_json:
            print_message({"question": question})
            is_yes = click.confirm("", err=True, prompt_suffix="", show_default=False)
        else:
            is_yes = click.confirm(question, err=True)
        if not is_yes:
            raise self.failure("Nothing was changed.", code="declined")

    def ask_secret(self, question: str) -> str:
        """Ask the person for a value that is not shown while it is typed."""
        if not self.as_json:
            return str(click.prompt(question, err=True, hide_input=True))
        print_message({"question": question})
        return str(click.prompt("", err=True, prompt_suffix="", hide_input=True))

    def job_id(self, reference: str) -> str:
        """Return the id of the job that is meant."""
        return self.expect(self.find_id(self.actor.jobs(), reference))

    def find_id(self, jobs: JobQuerySet, reference: str) -> Result[str]:
        """Return the id of the one of these jobs that is meant; an unknown name is refused with the nearest one."""
        found = public_id_of(jobs, reference)
        if isinstance(found, Err) or looks_like_public_id(found.value):
            return found
        names = jobs.order_by("-pk").values_list("name", flat=True)[:MOST_NAMES]
        meant = "" if NUMBER.fullmatch(found.value) else did_you_mean(found.value, names, '"{}"')
        missing = not_found(found.value)
        return replace(missing, message=f"{missing.message}{meant and '.'}{meant}")

    def job(self, reference: str) -> Job:
        """Return the job that is meant, with its activity."""
        job_id = self.job_id(reference)
        return self.actor.job(job_id) or self.expect(not_found(job_id))

    def source(self, name: str | None) -> str | None:
        """Return the name of a source that jobs have; an unknown one is refused with the nearest one."""
        known = sources_of(self.actor) if name is not None else []
        if name is None or name in known:
            return name
        raise self.failure(
            f"No job has the source {line(name)}.{did_you_mean(name, known)}",
            ExitCode.NOT_FOUND,
            Code.NOT_FOUND,
        )

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
            click.get_current_context().meta[AS_JSON] = as_json
            try:
                return function(_session(user, as_json), **parameters)
            except (OperationalError, ProgrammingError, InterfaceError) as error:
                raise _not_ready(error) from error
            except DatabaseError as error:
                # SQLite reports a damaged file so; the subclasses are mistakes of the program.
                if type(error) is not DatabaseError:
                    raise
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
    if environment.missing:
        raise not_started(environment.missing[-1])
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
