"""The base class of adapters, and helpers that they share."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from schedules.agents.reports import Report

Event = Mapping[str, Any]
MAX_QUOTED_CHARACTERS = 600


class RunnerOptions(Protocol):
    """The settings of a runner that adapters use."""

    @property
    def model(self) -> str | None: ...
    @property
    def mode(self) -> str | None: ...
    @property
    def bypass_permissions(self) -> bool: ...
    @property
    def parameters(self) -> Mapping[str, str | int | float | bool]: ...
    @property
    def tools(self) -> Sequence[str]: ...
    @property
    def grantable(self) -> Sequence[str]: ...
    @property
    def may_ask(self) -> bool: ...
    @property
    def session(self) -> str: ...
    @property
    def max_turns(self) -> int | None: ...
    @property
    def max_money(self) -> float | None: ...


class Adapter:
    """One kind of program, which reads the prompt from standard input and prints one JSON object per line."""

    program: ClassVar[str]
    tested_version: ClassVar[str]
    """The version whose output the adapter was written for."""
    modes: ClassVar[tuple[str, ...]] = ()
    """The program's permission modes, the safest one first; that is the default."""
    bypassing: ClassVar[frozenset[str]] = frozenset()
    """Modes and parameters that grant everything without asking."""
    reserved: ClassVar[frozenset[str]] = frozenset()
    """Parameters that the adapter sets itself, or that would change the format of the output."""
    has_tools: ClassVar[bool] = True
    can_resume: ClassVar[bool] = True
    can_defer: ClassVar[bool] = False
    """Whether it can end before a call that a person has to allow, and continue with that call later."""
    reports_money: ClassVar[bool] = False
    tells_all_at_end: ClassVar[bool] = False
    """Whether the last line repeats every refusal, so that a gap in the output cannot hide one."""

    def check(self, runner: RunnerOptions) -> None:
        """Raise ValueError for settings that this program does not support, or that grant too much."""
        if runner.mode and runner.mode not in self.modes:
            raise ValueError(f"mode: choose one of {', '.join(self.modes)}")
        if runner.tools and not self.has_tools:
            raise ValueError(f"tools: {self.program} takes no list of tools; choose a mode")
        if runner.grantable and not self.has_tools:
            raise ValueError(f"grantable: {self.program} takes no list of tools")
        for name in runner.parameters:
            if name in self.reserved:
                raise ValueError(f"parameters: {name} is set by Cronty")
        everything = sorted({runner.mode or "", *self._settings_of(runner)} & self.bypassing)
        if everything and not runner.bypass_permissions:
            raise ValueError(
                f"mode: {everything[0]} grants everything without asking; write bypass_permissions = true if you mean it"
            )

    def arguments(self, runner: RunnerOptions, resume: str) -> list[str]:
        """Return the arguments after the program; `resume` is the id of the session to continue, or empty."""
        raise NotImplementedError

    def asking_arguments(self, settings: str) -> list[str]:
        """Return the arguments that make it run the hook of this settings file before each call of a tool."""
        raise NotImplementedError

    def environment(self, runner: RunnerOptions) -> dict[str, str]:
        """Return additional environment variables for the program."""
        return {}

    def read(self, event: Event, report: Report) -> str:
        """Add a line of output to the report, and return the text that people see of it."""
        raise NotImplementedError

    def read_error_line(self, line: str, report: Report) -> None:
        """Add a line of error output to the report."""

    def mode_of(self, runner: RunnerOptions) -> str:
        return runner.mode or self.modes[0]

    def _settings_of(self, runner: RunnerOptions) -> set[str]:
        """Return the parameters as `name` and as `name=value`."""
        parameters = runner.parameters.items()
        return {name for name, value in parameters if value is not False} | {
            f"{n}={v}" for n, v in parameters
        }


def options(parameters: Mapping[str, str | int | float | bool]) -> list[str]:
    """Write parameters as --name=value, so that a value cannot become an option itself."""
    arguments = []
    for name, value in parameters.items():
        if value is True:
            arguments.append(f"--{name}")
        elif value is not False:
            arguments.append(f"--{name}={value}")
    return arguments


def quoted_result(text: str) -> str:
    """Indent the beginning of what a tool returned."""
    shown = text[:MAX_QUOTED_CHARACTERS].rstrip()
    omitted = len(text) - MAX_QUOTED_CHARACTERS
    more = f"\n  … {omitted:,} more characters" if omitted > 0 else ""
    return "\n".join(f"  {line}" for line in shown.splitlines()) + more
