"""The subcommands for the installation: up, mcp, doctor, backup, completion and manage."""

from argparse import ArgumentParser
from collections.abc import Sequence
from contextlib import nullcontext
from io import StringIO
from pathlib import Path
from typing import Any

import click
from click.shell_completion import get_completion_class
from django.conf import settings
from django.core.management import CommandError, call_command
from rich.status import Status

from cronty_site.startup import execute
from cronty_site.terminal.failures import Failure, not_started
from cronty_site.terminal.group import COMPLETION
from cronty_site.terminal.output import answer, console
from cronty_site.terminal.session import Session, subcommand
from schedules.management.commands import mcp_serve

_FORWARDED = {"ignore_unknown_options": True, "help_option_names": []}
_ARGUMENTS = click.argument("arguments", nargs=-1, type=click.UNPROCESSED)


@click.command("up", context_settings=_FORWARDED, add_help_option=False)
@_ARGUMENTS
def up_command(arguments: Sequence[str]) -> None:
    """Run the web pages and a cluster until Ctrl-C."""
    execute("cronty", "up", *arguments)


@click.command("doctor", context_settings=_FORWARDED, add_help_option=False)
@_ARGUMENTS
def doctor_command(arguments: Sequence[str]) -> None:
    """Check the installation."""
    if not settings.CRONTY_DATA.is_dir() and not {"-h", "--help", "--version"} & set(arguments):
        raise not_started(settings.CRONTY_DATA)
    execute("cronty", "doctor", *arguments)


@click.command("manage", context_settings=_FORWARDED, add_help_option=False)
@_ARGUMENTS
def manage_command(arguments: Sequence[str]) -> None:
    """Run any management command, like manage.py."""
    execute("cronty manage", *(arguments or ["help"]))


class StdioCommand(mcp_serve.Command):
    """The command mcp_serve without the options for HTTP."""

    help = "Serve the MCP tools to an agent over standard input and output."

    def add_arguments(self, parser: ArgumentParser) -> None:
        self.add_stdio_arguments(parser)
        parser.set_defaults(http=False)


@click.command("mcp", context_settings=_FORWARDED, add_help_option=False)
@_ARGUMENTS
def mcp_command(arguments: Sequence[str]) -> None:
    """Serve the MCP tools to an agent over standard input and output."""
    if "--http" in arguments:
        raise click.UsageError("Over HTTP, `cronty up` serves the tools at /mcp.")
    StdioCommand().run_from_argv(["cronty", "mcp", *arguments])


@subcommand(
    "backup",
    is_local=True,
    examples="""
    cronty backup /var/backups/cronty.sqlite3
    cronty backup /var/backups/cronty.archive --all
    """,
)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--all", "with_files", is_flag=True, help="Also the secret key, commands.toml, .env and apps/.")
@click.option(
    "--passphrase-file", type=click.Path(path_type=Path), help="Encrypt with the passphrase in a file."
)
@click.option("--plain", is_flag=True, help="Do not encrypt it.")
def backup_command(session: Session, path: Path, **options: Any) -> None:
    """Copy the SQLite database to PATH while Cronty runs; for PostgreSQL, print the command to use."""
    prompts = options["with_files"] and not options["passphrase_file"] and not options["plain"]
    try:
        with nullcontext() if prompts else Status("Copying the database …", console=console(stderr=True)):
            report = call_command("backup", str(path), stdout=StringIO(), **options)
    except CommandError as error:
        raise Failure(str(error)) from error
    answer({"path": str(path), "bytes": path.stat().st_size}, report, style="")


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  cronty completion bash > ~/.local/share/bash-completion/completions/cronty
    zsh:   cronty completion zsh > ~/.zfunc/_cronty
    fish:  cronty completion fish > ~/.config/fish/completions/cronty.fish
    """
    completion: Any = get_completion_class(shell)
    root = click.get_current_context().find_root().command
    click.echo(completion(root, {}, "cronty", COMPLETION).source())
