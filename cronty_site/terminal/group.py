"""The `cronty` command and the table of its subcommands, whose modules are imported when they are used.

Django is started only for a subcommand, so that `cronty --help` answers at once.
"""

import os
import sys
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from cronty_site.terminal.setup import ExitCode, Failure, show_error, start_django
from cronty_site.terminal.suggestions import did_you_mean
from schedules import __version__
from schedules.management.startup import without_garbage_collection


class Entry(NamedTuple):
    """A subcommand: the module it is in, and its line in the list of commands."""

    module: str
    help: str


SECTIONS: dict[str, dict[str, Entry]] = {
    "Look": {
        "jobs": Entry("reading", "List jobs."),
        "show": Entry("reading", "Show everything about a job."),
        "next": Entry("reading", "List the next runs, of all jobs or of one."),
        "why": Entry("reading", "Explain why a run happened, failed or did not happen."),
        "logs": Entry("logs", "Show runs with their output, and follow new ones."),
        "preview": Entry("reading", "Show what a schedule means, without creating anything."),
    },
    "Change": {
        "add": Entry("adding", "Create a job."),
        "edit": Entry("editing", "Change a job, by options or in an editor."),
        "run": Entry("changing", "Run a job now."),
        "pause": Entry("changing", "Pause jobs."),
        "resume": Entry("changing", "Resume paused jobs."),
        "skip": Entry("changing", "Leave out the next run, or the runs of some days."),
        "cancel": Entry("changing", "Cancel jobs: they never run again."),
        "rm": Entry("changing", "Move jobs to the trash."),
        "restore": Entry("changing", "Bring back deleted and cancelled jobs."),
    },
    "Files": {
        "apply": Entry("files", "Create, change and delete jobs as files describe them."),
        "export": Entry("files", "Write jobs to a file that `apply` reads."),
        "import": Entry("crontabs", "Take over the jobs of a crontab."),
        "schema": Entry("files", "Print the JSON Schema of job files, for editors."),
    },
    "Operate": {
        "up": Entry("operating", "Run the web pages and a cluster until Ctrl-C."),
        "mcp": Entry("serving", "Serve the MCP tools to an agent over standard input and output."),
        "token": Entry("tokens", "Create, list and revoke tokens of agents."),
        "secret": Entry("secrets", "List, set and delete secrets."),
        "doctor": Entry("operating", "Examine the installation, and say what to do."),
        "backup": Entry("operating", "Copy the database while Cronty runs."),
        "completion": Entry("operating", "Print the completion script of a shell."),
        "manage": Entry("operating", "Run any management command, like manage.py."),
    },
}
# They may migrate, serve pages, or examine all of the installation.
WITH_PAGES = ("up", "doctor", "manage")
# These create what is missing, like the database; the others only use an installation.
CREATING = ("up", "mcp", "manage")
ALIASES = {"ls": "jobs", "list": "jobs", "delete": "rm"}
COMPLETION = "_CRONTY_COMPLETE"
COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}

EPILOG = """\b
Examples:
  cronty up
  cronty add "every weekday at 8:30" notify message="Stand up" topic=my-phone --name "Stand up"
  cronty jobs --status paused
  cronty why "Stand up" "yesterday at 8:30"

JOB is an id, a number or an exact name. Exit codes: 0 done, 1 refused, 2 wrong usage, 3 not found, 4 a run did not
succeed, 5 Cronty is not ready, 6 files and jobs differ, 130 interrupted."""


class LazyGroup(click.Group):
    """A group that imports a subcommand when it is used, and lists all of them without importing any."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        name = ALIASES.get(name, name)
        entry = COMMANDS.get(name)
        if entry is None:
            return None
        with without_garbage_collection():
            start_django(pages=name in WITH_PAGES, creates=name in CREATING)
            module = import_module(f"cronty_site.terminal.{entry.module}")
        found: click.Command = getattr(module, f"{name}_command")
        return found

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if (name := args[0]) not in COMMANDS and name not in ALIASES and not name.startswith("-"):
            meant = did_you_mean(name, [*COMMANDS, *ALIASES], "`{}`")
            context.fail(f"No such command {name!r}.{meant}")
        return super().resolve_command(context, args)

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of commands without importing them."""
        if incomplete.startswith("-"):
            return super().shell_complete(context, incomplete)
        found = {name: entry for name, entry in COMMANDS.items() if name.startswith(incomplete)}
        return [CompletionItem(name, help=entry.help) for name, entry in found.items()]

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry.help) for name, entry in section.items()])


@click.group(cls=LazyGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="cronty")
def cli() -> None:
    """Cron you can talk to: jobs for people and their agents."""


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line; Ctrl-C ends it with exit code 130."""
    as_json = "--json" in (sys.argv[1:] if arguments is None else arguments)
    try:
        return cli.main(args=arguments, prog_name="cronty", standalone_mode=False) or 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.Abort:
        show_error(Failure("Interrupted.", ExitCode.INTERRUPTED, code="interrupted"), as_json=as_json)
        return ExitCode.INTERRUPTED
    except click.ClickException as error:
        # Whoever presses the tab key asks for names, not for errors.
        if COMPLETION not in os.environ:
            show_error(error, as_json=as_json)
        return error.exit_code
    except BrokenPipeError:
        # The reader, like `head`, has seen enough.
        sys.stderr.close()
        return 1
