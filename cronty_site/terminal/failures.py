"""Failures of a command: exit codes, error messages, and suggestions for misspelled names."""

import json
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
    """A failure with an exit code, and with a code for programs."""

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
        # It may repeat what was typed, or what somebody else stored.
        text = StringIO()
        error.show(text)
        click.echo(strip_unprintable(text.getvalue()), err=True, nl=False)


def not_started(path: Path) -> Failure:
    """Return the failure of a command that needs an installation, for this missing file or folder."""
    return Failure(
        f"Cronty has not been started here yet: there is no {path}."
        " Run `cronty up` first, or set CRONTY_DATA to the folder of an installation.",
        ExitCode.NOT_READY,
        code="not_ready",
    )
