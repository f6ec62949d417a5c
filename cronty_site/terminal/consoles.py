"""Consoles: where a command prints and whom it asks, which is this terminal or one on another machine."""

import os
import sys
import time
from collections.abc import Mapping
from contextvars import ContextVar
from typing import IO, Any

import click

from cronty_site.terminal.elsewhere.local_actions import ACTIONS


class Console:
    """The streams, the person and the files of this process."""

    width: int | None = None
    """The width of a remote terminal; None for that of this process."""
    is_remote = False
    caller: Any = None
    """The bearer of the token of a remote command; None for a person at this machine."""

    def stream(self, *, err: bool = False) -> IO[str]:
        return sys.stderr if err else sys.stdout

    @property
    def environ(self) -> Mapping[str, str]:
        return os.environ

    def do(self, action: str, *arguments: Any, **values: Any) -> Any:
        """Run one of the functions of `local_actions` on the machine of the person, and return its result."""
        return ACTIONS[action](*arguments, **values)

    def tell(self, action: str, *arguments: Any) -> None:
        """Run an action without a result; after a change, only this is allowed."""
        self.do(action, *arguments)

    def pause(self, seconds: float) -> None:
        """Wait between two polls of what a command follows."""
        time.sleep(seconds)  # noqa: TID251  (follows until Ctrl-C)


_console: ContextVar[Console] = ContextVar("console")
_own = Console()
set_console = _console.set
reset_console = _console.reset


def current_console() -> Console:
    """Return the console of the command that runs in this context."""
    return _console.get(_own)


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text as it is."""
    click.echo(text, file=current_console().stream(err=err), nl=nl)


def secho(text: str, *, fg: str | None) -> None:
    """Print a text in a colour."""
    click.secho(text, file=current_console().stream(), fg=fg)
