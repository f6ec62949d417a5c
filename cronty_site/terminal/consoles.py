"""Where a command prints and whom it asks: the terminal of this process, or one on another machine."""

import os
import sys
import time
from collections.abc import Mapping
from contextvars import ContextVar
from typing import IO, Any

import click

from cronty_site.terminal.elsewhere.desk import ACTIONS


class Console:
    """The streams, the person and the files of this process."""

    width: int | None = None
    """How wide a terminal is; None for the one of this process."""
    is_remote = False
    caller: Any = None
    """Whose token this is; None for a person at this machine."""

    def stream(self, *, err: bool = False) -> IO[str]:
        return sys.stderr if err else sys.stdout

    @property
    def environ(self) -> Mapping[str, str]:
        return os.environ

    def do(self, action: str, *arguments: Any, **values: Any) -> Any:
        """Ask the person, or read or write a file on their machine: one of the functions of `desk`."""
        return ACTIONS[action](*arguments, **values)

    def tell(self, action: str, *arguments: Any) -> None:
        """Like `do`, for what has no answer; only this may follow a change."""
        self.do(action, *arguments)

    def pause(self, seconds: float) -> None:
        """Wait between two looks at what a command follows."""
        time.sleep(seconds)  # noqa: TID251  (follows until Ctrl-C)


_console: ContextVar[Console] = ContextVar("console")
_own = Console()
use = _console.set
leave = _console.reset


def here() -> Console:
    """Return the console of the command that runs in this context."""
    return _console.get(_own)


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text as it is."""
    click.echo(text, file=here().stream(err=err), nl=nl)


def secho(text: str, *, fg: str | None) -> None:
    """Print a text in a colour."""
    click.secho(text, file=here().stream(), fg=fg)
