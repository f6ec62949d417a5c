"""The output of runs, printed while they print it."""

import click

from cronty_site.terminal.output import block, note
from schedules.models import Execution
from schedules.services.runs.outputs import output_since


class RunStream:
    """Prints what is new in the output of a run."""

    def __init__(self, run: Execution) -> None:
        self._run = run
        self._position = 0
        self._attempt = 0
        self._is_in_line = False
        self.has_printed = False
        self.is_ended = False

    def print_new(self) -> None:
        """Print what the run has printed since the last call; a new attempt begins with a note."""
        part = output_since(self._run, self._position, self._attempt)
        if part.text:
            if self.has_printed and part.attempt != self._attempt:
                self.end_line()
                note(f"Attempt {part.attempt}:")
            click.echo(block(part.text), nl=False)
            self.has_printed = True
            self._is_in_line = not part.text.endswith("\n")
        self._position, self._attempt, self.is_ended = part.position, part.attempt, part.is_ended

    def end_line(self) -> None:
        """End the last line, before something else is printed."""
        if self._is_in_line:
            click.echo()
            self._is_in_line = False


class RunStreams:
    """Prints the outputs of several runs, none within a line of another."""

    def __init__(self) -> None:
        self._streams: dict[int, RunStream] = {}
        self._last: RunStream | None = None

    def print_new(self, run: Execution) -> None:
        stream = self._streams.setdefault(run.pk, RunStream(run))
        if self._last is not stream:
            self.end_line()
        stream.print_new()
        self._last = stream

    def end(self, run: Execution) -> bool:
        """Print the rest of what a run has printed; return whether it has printed anything."""
        self.print_new(run)
        self.end_line()
        return self._streams.pop(run.pk).has_printed

    def end_line(self) -> None:
        if self._last:
            self._last.end_line()
