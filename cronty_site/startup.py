"""The set-up of Django for Cronty's command lines."""

import os
import sys
from argparse import ArgumentError, ArgumentParser
from contextlib import suppress

import django
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
    # With `web`, the application does it, as with any other server.
    if arguments[:1] in (("up",), ("qcluster",)):
        restrict_to_owner()
    # Only needed here, and not by every command of a terminal.
    from django.core.management import execute_from_command_line  # noqa: PLC0415

    execute_from_command_line([program, *arguments])


def set_up(*, creates: bool = True) -> None:
    """Set Django up, or exit with the sentence that says which setting is wrong.

    Unless it creates what is missing, `environment.missing` names the files of an installation that do not exist.
    """
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "cronty_site.settings")
    environment.creates = creates
    if "up" in sys.argv[1:3]:
        _store_options_of_up()
    try:
        django.setup()
    except ImproperlyConfigured as error:
        # A wrong setting is for the operator to fix; a traceback would only hide the sentence that says how.
        sys.exit(f"Cronty cannot start. {error}")


def _store_options_of_up() -> None:
    """Store the options of `up` as variables, because other settings depend on them in the processes that it forks."""
    parser = ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument("--host")
    parser.add_argument("--port", type=port)
    parser.add_argument("--workers")
    # The command itself reports wrong usage.
    with suppress(ArgumentError):
        options, _ = parser.parse_known_args(sys.argv[1:])
        os.environ |= {f"CRONTY_{name.upper()}": str(value) for name, value in vars(options).items() if value}
