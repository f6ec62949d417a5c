"""The subcommand that a client of an agent starts, for every conversation."""

from argparse import ArgumentParser
from collections.abc import Sequence

import click

from schedules.management.commands import mcp_serve


class StdioCommand(mcp_serve.Command):
    """The server without the options for HTTP."""

    help = "Serve the MCP tools to an agent over standard input and output."

    def add_arguments(self, parser: ArgumentParser) -> None:
        self.add_stdio_arguments(parser)
        parser.set_defaults(http=False)


@click.command("mcp", context_settings={"ignore_unknown_options": True}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def mcp_command(arguments: Sequence[str]) -> None:
    """Serve the MCP tools to an agent over standard input and output."""
    if "--http" in arguments:
        raise click.UsageError("Over HTTP, `cronty up` serves the tools at /mcp.")
    StdioCommand().run_from_argv(["cronty", "mcp", *arguments])
