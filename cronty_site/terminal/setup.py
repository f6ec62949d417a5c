"""The start of Django for a subcommand, and failures as exit codes."""

import json
import sys

import click


class ExitCode:
    """The exit codes of `cronty`, as documented in its help; click uses 2 for wrong usage."""

    REFUSED = 1
    NOT_FOUND = 3
    RUN_FAILED = 4
    NOT_READY = 5
    DIFFERENT = 6
    INTERRUPTED = 130


class Failure(click.ClickException):
    """A failure with a message for standard error, as text or as JSON."""

    def __init__(
        self, message: str, exit_code: int = ExitCode.REFUSED, *, as_json: bool = False, code: str = ""
    ) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]
        self.as_json = as_json
        self.code = code

    def show(self, file: object = None) -> None:
        if self.as_json:
            click.echo(json.dumps({"error": self.message, "code": self.code or "error"}), err=True)
        else:
            click.echo(f"cronty: {self.message}", err=True)


def start_django(*, pages: bool) -> None:
    """Set Django up, once; a wrong setting is a failure with one sentence."""
    if "django" in sys.modules:
        from django.apps import apps  # noqa: PLC0415

        if apps.ready:
            return
    from cronty_site.startup import set_up  # noqa: PLC0415

    try:
        set_up(pages=pages)
    except SystemExit as end:
        raise Failure(str(end), ExitCode.NOT_READY) from end
