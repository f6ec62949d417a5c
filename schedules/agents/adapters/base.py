"""What every adapter provides: the arguments that a program is started with, and how its output is read."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from schedules.agents.reports import Report

Event = Mapping[str, Any]


class Chosen(Protocol):
    """What the operator chose for a runner, as far as an adapter needs it."""

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
    """One kind of program. The prompt arrives on its standard input, and it writes one JSON object per line."""

    program: ClassVar[str]
    known_version: ClassVar[str]
    """The version whose output this was written for."""
    modes: ClassVar[tuple[str, ...]] = ()
    """How the program may decide about permissions, the safest one first: it is the default."""
    bypassing: ClassVar[frozenset[str]] = frozenset()
    """Modes, and parameters, that grant everything without asking."""
    reserved: ClassVar[frozenset[str]] = frozenset()
    """Parameters that the adapter sets itself, or that would change how the output is read."""
    has_tools: ClassVar[bool] = True
    can_resume: ClassVar[bool] = True
    can_defer: ClassVar[bool] = False
    """Whether it can also end before a call that a person has to allow, and go on with that call."""
    reports_money: ClassVar[bool] = False
    tells_all_at_end: ClassVar[bool] = False
    """Whether the last line names every refusal, so that nothing before it can hide one."""

    def check(self, chosen: Chosen) -> None:
        """Refuse what this program does not know, or what cannot be trusted; raises ValueError."""
        if chosen.mode and chosen.mode not in self.modes:
            raise ValueError(f"mode: choose one of {', '.join(self.modes)}")
        if chosen.tools and not self.has_tools:
            raise ValueError(f"tools: {self.program} takes no list of tools; choose a mode")
        if chosen.grantable and not self.has_tools:
            raise ValueError(f"grantable: {self.program} takes no list of tools")
        if chosen.max_money and not self.reports_money:
            raise ValueError(f"max_money: {self.program} does not report money; set max_tokens or max_time")
        for name in chosen.parameters:
            if name in self.reserved:
                raise ValueError(f"parameters: {name} is set by Cronty")
        everything = sorted({chosen.mode or "", *self._settings_of(chosen)} & self.bypassing)
        if everything and not chosen.bypass_permissions:
            raise ValueError(
                f"mode: {everything[0]} grants everything without asking; write bypass_permissions = true if you mean it"
            )

    def arguments(self, chosen: Chosen, resume: str) -> list[str]:
        """Return the arguments after the program; `resume` names the session to go on with, or is empty."""
        raise NotImplementedError

    def asking_arguments(self, settings: str) -> list[str]:
        """Return the arguments that make it ask the hook of these settings before each call of a tool."""
        raise NotImplementedError

    def environment(self, chosen: Chosen, folder: str) -> dict[str, str]:
        """Return variables that the program needs."""
        return {}

    def files(self, chosen: Chosen) -> dict[str, str]:
        """Return files that the program needs in the folder of the run, by their paths in it."""
        return {}

    def read(self, event: Event, report: Report) -> str:
        """Add what a line says to the report, and return what people see of it."""
        raise NotImplementedError

    def read_error_line(self, line: str, report: Report) -> None:
        """Add what a line of the error output says."""

    def finish(self, report: Report) -> None:
        """Conclude from what the program has not said."""

    def mode_of(self, chosen: Chosen) -> str:
        return chosen.mode or self.modes[0]

    def _settings_of(self, chosen: Chosen) -> set[str]:
        """Return the parameters by name, and by name and value."""
        parameters = chosen.parameters.items()
        return {name for name, value in parameters if value is not False} | {
            f"{n}={v}" for n, v in parameters
        }


def options(parameters: Mapping[str, str | int | float | bool]) -> list[str]:
    """Write parameters as long options: a value can never become an option of its own."""
    written = []
    for name, value in parameters.items():
        if value is True:
            written.append(f"--{name}")
        elif value is not False:
            written.append(f"--{name}={value}")
    return written


def quoted_result(text: str, most: int = 600) -> str:
    """Indent the beginning of what a tool returned."""
    shown = text[:most].rstrip()
    more = f"\n  … {len(text) - most:,} more characters" if len(text) > most else ""
    return "\n".join(f"  {line}" for line in shown.splitlines()) + more
