"""The start of Django for a subcommand, and failures as exit codes."""

import json
import sys
from io import StringIO
from pathlib import Path
from typing import IO, Any

import click

from schedules.limits import strip_unprintable


class ExitCode:
    """The exit codes of `cronty`, as documented in its help; click uses 2 for wrong usage."""

    REFUSED = 1
    NOT_FOUND = 3
    RUN_FAILED = 4
    NOT_READY = 5
    DIFFERENT = 6
    INTERRUPTED = 130


class Failure(click.ClickException):
    """A failure with its exit code, and with a word for programs."""

    def __init__(self, message: str, exit_code: int = ExitCode.REFUSED, *, code: str = "") -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]
        self.code = code or "error"

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"cronty: {self.message}", file=file, err=True)


def show_error(error: click.ClickException, *, as_json: bool) -> None:
    """Print an error to standard error, as text or as one line of JSON."""
    if as_json:
        code = error.code if isinstance(error, Failure) else "usage"
        click.echo(json.dumps({"error": error.format_message(), "code": code}), err=True)
    else:
        # It may repeat what was typed, or what somebody else has stored.
        shown = StringIO()
        error.show(shown)
        click.echo(strip_unprintable(shown.getvalue()), err=True, nl=False)


def not_started(path: Path) -> Failure:
    """Return the failure of a command that needs an installation, of which this part is missing."""
    return Failure(
        f"Cronty has not been started here yet: there is no {path}."
        " Run `cronty up` first, or set CRONTY_DATA to the folder of an installation.",
        ExitCode.NOT_READY,
        code="not_ready",
    )


def start_django(*, pages: bool, creates: bool) -> None:
    """Set Django up, once; a wrong setting is a failure with one sentence."""
    if "django" in sys.modules:
        # `cronty --help` starts without Django.
        from django.apps import apps  # noqa: PLC0415

        if apps.ready:
            return
    # It imports Django.
    from cronty_site.startup import set_up  # noqa: PLC0415

    try:
        set_up(pages=pages, creates=creates)
    except SystemExit as end:
        raise Failure(str(end), ExitCode.NOT_READY, code="not_ready") from end
