"""The start of Django for a subcommand, and failures as exit codes."""

import json
import os
import sys

import click

from schedules.management.startup import without_garbage_collection

SETTINGS = "cronty_site.settings"


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
    """Read the settings and load the apps, once; a wrong setting is a failure with one sentence."""
    if "django" in sys.modules:
        from django.apps import apps  # noqa: PLC0415

        if apps.ready:
            return
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", SETTINGS)
    import django  # noqa: PLC0415
    from django.core.exceptions import ImproperlyConfigured  # noqa: PLC0415

    try:
        with without_garbage_collection():
            django.setup()
    except ImproperlyConfigured as error:
        raise Failure(f"Cronty cannot start. {error}", ExitCode.NOT_READY) from error
