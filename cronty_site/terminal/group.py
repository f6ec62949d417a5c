"""The `cronty` command; subcommands and Django are imported only when needed, so that help and completion are quick."""

import os
import sys
from importlib import import_module
from typing import Any, NamedTuple

import click

from cronty_site.terminal.failures import ExitCode, Failure, show_error
from schedules import __version__
from schedules.mcp.early import answer_early


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
        "edit": Entry("adding", "Change a job, by options or in an editor."),
        "run": Entry("logs", "Run a job now."),
        "pause": Entry("changing", "Pause jobs."),
        "resume": Entry("changing", "Resume paused jobs."),
        "confirm": Entry("changing", "Let jobs run that agents have made."),
        "skip": Entry("changing", "Leave out the next run, or the runs of some days."),
        "done": Entry("changing", "Answer a reminder: done."),
        "snooze": Entry("changing", "Answer a reminder: again later."),
        "cancel": Entry("changing", "Cancel jobs: they never run again."),
        "trigger": Entry("changing", "Give a job an address that starts it, renew it, or take it away."),
        "rm": Entry("changing", "Move jobs to the trash."),
        "restore": Entry("changing", "Bring back deleted and cancelled jobs."),
    },
    "Files": {
        "apply": Entry("files", "Create, change and delete jobs as files describe them."),
        "export": Entry("files", "Write jobs to a file that `apply` reads."),
        "import": Entry("crontabs", "Take over the jobs of a crontab."),
        "schema": Entry("files", "Print the JSON Schema of job files, for editors."),
    },
    "Elsewhere": {
        "exec": Entry("elsewhere.executing", "Run a command here, and report it to a Cronty anywhere."),
    },
    "Operate": {
        "up": Entry("operating", "Run the web pages and a cluster until Ctrl-C."),
        "mcp": Entry("operating", "Serve the MCP tools to an agent over standard input and output."),
        "approvals": Entry("agents", "List what agents ask, and answer it."),
        "preferences": Entry("settings", "Show and change where alerts and notifications go, and your zone."),
        "alerts": Entry("settings", "List alerts and what was sent, and snooze them."),
        "runner": Entry("agents", "List and check runners of prompts; stop all agents."),
        "token": Entry("access", "Create, list and revoke tokens of agents."),
        "calendars": Entry("settings", "List, set and delete calendars."),
        "secret": Entry("access", "List, set and delete secrets."),
        "channels": Entry("channels", "List, add, test and delete channels."),
        "doctor": Entry("operating", "Examine the installation, and say what to do."),
        "backup": Entry("operating", "Copy the database while Cronty runs."),
        "completion": Entry("operating", "Print the completion script of a shell."),
        "manage": Entry("operating", "Run any management command, like manage.py."),
    },
}
# These create what is missing, such as the database; the others only use an installation.
CREATING = ("up", "mcp", "manage")
# These need neither an installation nor Django.
ELSEWHERE = SECTIONS["Elsewhere"]
# These change nothing.
READING = {*SECTIONS["Look"], "export", "schema"}
# Set for programs that work on prompts: such a run has no identity of its own, and may not change anything.
IN_RUN = "CRONTY_IN_RUN"
_ALLOWED_IN_RUN = {*READING, *ELSEWHERE, "mcp", "doctor", "completion"}
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


def load(name: str) -> click.Command:
    """Import a subcommand, and set Django up if it needs that; refuse one that a run of a prompt may not use."""
    if IN_RUN in os.environ and name not in _ALLOWED_IN_RUN:
        raise Failure(
            "A run of a prompt may not change schedules here. To permit it, the operator gives its runner a token.",
            code="refused",
        )
    if name not in ELSEWHERE:
        _set_up(creates=name in CREATING)
    module = import_module(f"cronty_site.terminal.{COMMANDS[name].module}")
    command: click.Command = getattr(module, f"{name}_command")
    return command


def _set_up(*, creates: bool) -> None:
    from django.apps import apps  # noqa: PLC0415  (takes a second, and the list of commands does without)

    from cronty_site.startup import set_up  # noqa: PLC0415  (the same)

    if not apps.ready:
        try:
            set_up(creates=creates)
        except SystemExit as end:
            raise Failure(str(end), ExitCode.NOT_READY, code="not_ready") from end


class LazyGroup(click.Group):
    """A group that knows the names and help of its subcommands, and imports one when it is used."""

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, stub, rest = super().resolve_command(context, args)
        return name, load(str(stub.name)) if stub else None, rest

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry.help) for name, entry in section.items()])


STUBS = {name: click.Command(name, help=entry.help) for name, entry in COMMANDS.items()}
STUBS |= {alias: click.Command(name, hidden=True) for alias, name in ALIASES.items()}


@click.group(
    cls=LazyGroup, commands=STUBS, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="cronty")
def cli() -> None:
    """Cron you can talk to: jobs for people and their agents."""


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line, and print its failure; Ctrl-C ends it with 130."""
    words = sys.argv[1:] if arguments is None else arguments
    if IN_RUN in os.environ and words[:1] == ["mcp"] and "--read-only" not in words:
        words = [*words, "--read-only"]
    if arguments is None and words[:1] == ["mcp"]:
        answer_early(words[1:])
    try:
        return cli.main(args=words, prog_name="cronty", standalone_mode=False) or 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except (click.Abort, KeyboardInterrupt):
        failure = Failure("Interrupted.", ExitCode.INTERRUPTED, code="interrupted")
        show_error(failure, as_json="--json" in words)
        return ExitCode.INTERRUPTED
    except click.ClickException as error:
        # The tab key completes names, and shows no errors.
        if COMPLETION not in os.environ:
            show_error(error, as_json="--json" in words)
        return error.exit_code
    except BrokenPipeError:
        # The reader, like `head`, has seen enough.
        sys.stderr.close()
        return 1
