"""The subcommand that a client of an agent starts, for every conversation."""

from collections.abc import Sequence

import click
from django.core.management import execute_from_command_line


@click.command("mcp", context_settings={"ignore_unknown_options": True}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def mcp_command(arguments: Sequence[str]) -> None:
    """Serve the MCP tools to an agent over standard input and output."""
    if "--http" in arguments:
        raise click.UsageError("Over HTTP, `cronty up` serves the tools at /mcp.")
    execute_from_command_line(["cronty", "mcp_serve", *arguments])
