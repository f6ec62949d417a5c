"""The report of a run, which adapters fill in from the program's output, and helpers to read its loosely typed JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

MAX_TOOLS = 200
MAX_ANSWERS = 100_000
LONGEST_INPUT = 500
LONGEST_ANSWER = 65_536
MAX_NUMBER = 10**15
MAX_MONEY = 100_000.0


@dataclass
class ToolUse:
    """One call of a tool, with the beginning of its arguments."""

    name: str
    input: str
    outcome: str = ""
    """Empty while it runs, then ok, error or denied."""

    @property
    def label(self) -> str:
        return f"{self.name}: {self.input}" if self.input else self.name

    def as_json(self) -> dict[str, str]:
        return {"name": self.name, "input": self.input, "outcome": self.outcome}


class Call(NamedTuple):
    """A call that a person is asked about, with its complete arguments."""

    id: str
    tool: str
    arguments: Any


@dataclass
class Report:
    """Everything that a program has reported so far."""

    session_id: str = ""
    version: str = ""
    turns: int = 0
    tokens_in: int = 0
    """Tokens that the model read in this run, including those from a cache."""
    tokens_out: int = 0
    cost: float | None = None
    """As reported; some programs report the cost of the whole session."""
    session_cost: float | None = None
    """The reported cost, before that of the session's earlier runs is subtracted."""
    answer: str = ""
    tools: list[ToolUse] = field(default_factory=list)
    tool_calls: int = 0
    denials: list[ToolUse] = field(default_factory=list)
    deferred: ToolUse | None = None
    """The call that the program ended before, because a person has to allow it."""
    deferred_call: Call | None = None
    last_text: str = ""
    """The last text of the agent before its end."""
    has_ended: bool = False
    """Whether the program has written its last line."""
    problem: str = ""
    """The error that it reported."""
    cap: str = ""
    """The limit of its own that it reached."""
    session_usage: tuple[int, int] | None = None
    """The tokens read and written in the whole session, if the program reports them."""
    earlier_usage: tuple[int, int] = (0, 0)
    """The tokens read and written by earlier runs of the session."""
    is_in_text: bool = False
    """Whether the next piece of text continues the previous one."""
    _answers: set[str] = field(default_factory=set)
    _open: dict[str, ToolUse] = field(default_factory=dict)
    _usage: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out

    @property
    def open_keys(self) -> set[str]:
        return set(self._open)

    @property
    def session_tokens(self) -> int | None:
        """All tokens of the session, if the program reports them."""
        return sum(self.session_usage) if self.session_usage else None

    def raise_tokens(self, tokens_in: int, tokens_out: int) -> None:
        """Take over the run's totals, which may count more than the model's single answers did."""
        self.tokens_in, self.tokens_out = max(self.tokens_in, tokens_in), max(self.tokens_out, tokens_out)

    def begin_answer(self, key: str) -> bool:
        """Count a turn, unless this answer of the model was counted before; return whether it is new."""
        if key and key in self._answers:
            return False
        self.turns += 1
        if len(self._answers) < MAX_ANSWERS:
            self._answers.add(key[:200])
        return True

    def begin_tool(self, key: str, name: Any, arguments: Any) -> ToolUse:
        """Add a call; only the first ones are listed."""
        use = ToolUse(text_of(name)[:100] or "tool", summarize_input(arguments))
        self.tool_calls += 1
        if len(self.tools) < MAX_TOOLS:
            self.tools.append(use)
        if len(self._open) < MAX_TOOLS:
            self._open[key] = use
        return use

    def end_tool(self, key: str, outcome: str) -> ToolUse | None:
        use = self._open.pop(key, None)
        if use and use.outcome != "denied":
            use.outcome = outcome
        return use

    def refuse(self, use: ToolUse) -> None:
        """Mark a call as denied, and add it to the denials."""
        use.outcome = "denied"
        if len(self.denials) < MAX_TOOLS:
            self.denials.append(use)

    def deny(self, name: Any, arguments: Any) -> None:
        """Mark the calls with this name and these arguments as denied, and add one denial."""
        denied = ToolUse(text_of(name)[:100] or "tool", summarize_input(arguments))
        for use in self.tools:
            if (use.name, use.input) == (denied.name, denied.input):
                use.outcome = "denied"
        self.refuse(denied)

    def add_usage(self, key: str, tokens_in: int, tokens_out: int) -> None:
        """Count the tokens of one answer of the model, which a program may report again with every part of it."""
        if key not in self._usage and len(self._usage) >= MAX_ANSWERS:
            return
        before_in, before_out = self._usage.get(key, (0, 0))
        self._usage[key] = max(before_in, tokens_in), max(before_out, tokens_out)
        self.tokens_in += self._usage[key][0] - before_in
        self.tokens_out += self._usage[key][1] - before_out


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def number_of(value: Any) -> int:
    """Return a positive number of plausible size as an integer; 0 for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and 0 < value < MAX_NUMBER else 0


def money_of(value: Any) -> float | None:
    """Return a plausible amount of money, or None for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < MAX_MONEY else None


def mapping_of(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def summarize_input(arguments: Any) -> str:
    """Return the beginning of a tool's arguments in one line: only the command, path or address if there is one."""
    value: Any = arguments
    if isinstance(arguments, dict):
        candidates = (arguments.get(name) for name in ("command", "cmd", "file_path", "path", "url", "query"))
        value = next((value for value in candidates if isinstance(value, str) and value), None)
        if value is None:
            value = ", ".join(f"{key}={value}" for key, value in list(arguments.items())[:20])
    if isinstance(value, list):
        value = " ".join(map(str, value[:50]))
    return " ".join(str(value if value is not None else "")[: 4 * LONGEST_INPUT].split())[:LONGEST_INPUT]
