"""Set Django up for Cronty's command lines, and run management commands."""

import os
import sys
from argparse import ArgumentError, ArgumentParser
from contextlib import suppress

import django
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from cronty_site import environment
from schedules.management.arguments import port
from schedules.secrets.private_files import restrict_to_owner


def run_command() -> None:
    """Run the management command that the arguments name."""
    set_up()
    execute(*sys.argv)


def execute(program: str, *arguments: str) -> None:
    """Run a management command; only those that start Cronty change the permissions of its files."""
    # For `web`, the application does it, as under any other server.
    if arguments[:1] in (("up",), ("qcluster",)):
        restrict_to_owner()
    # Imported here, because most commands of the terminal do not need it.
    from django.core.management import execute_from_command_line  # noqa: PLC0415

    execute_from_command_line([program, *arguments])


def set_up(*, creates: bool = True) -> None:
    """Set Django up, or exit with a sentence about the setting that is wrong.

    Without `creates`, missing files of the installation are not created, but listed in `environment.missing`.
    """
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "cronty_site.settings")
    environment.creates = creates
    starts = {"up", "web", "qcluster"} & set(sys.argv[1:3])
    environment.finds_server = not starts
    if starts:
        _store_options()
    try:
        # This reads the settings.
        _ = settings.CRONTY_URL
        if "up" in starts and not {"-h", "--help", "--version"} & set(sys.argv):
            # The rest takes seconds on a small machine.
            sys.stdout.write("Loading Cronty …\n")
            sys.stdout.flush()
        django.setup()
    except ImproperlyConfigured as error:
        # The operator has to correct the setting; a traceback would hide the sentence that says how.
        sys.exit(f"Cronty cannot start. {error}")


def _store_options() -> None:
    """Store the options of `up` and `web` as variables, because other settings depend on them, also in child processes."""
    parser = ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument("--host")
    parser.add_argument("--port", type=port)
    parser.add_argument("--workers")
    # The command itself reports wrong usage.
    with suppress(ArgumentError):
        options, _ = parser.parse_known_args(sys.argv[1:])
        os.environ |= {f"CRONTY_{name.upper()}": str(value) for name, value in vars(options).items() if value}
