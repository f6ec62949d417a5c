"""The `cronty` command: jobs, files and the installation in a terminal."""

from cronty_site.terminal.group import main

__all__ = ["main"]
