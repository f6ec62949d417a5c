"""What an agent program says about its own run, gathered while it runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

MOST_TOOLS = 200
MOST_ANSWERS = 100_000
LONGEST_INPUT = 500
LONGEST_ANSWER = 65_536
LARGEST = 10**15
MOST_MONEY = 100_000.0


@dataclass
class ToolUse:
    """One call of a tool, with the beginning of its arguments."""

    name: str
    input: str
    outcome: str = ""
    """Empty while it runs, then ok, error or denied."""

    @property
    def words(self) -> str:
        return f"{self.name}: {self.input}" if self.input else self.name

    def as_json(self) -> dict[str, str]:
        return {"name": self.name, "input": self.input, "outcome": self.outcome}


class Call(NamedTuple):
    """A call that a program has put off, whole."""

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
    """Tokens that the model read in this run, also those from a cache."""
    tokens_out: int = 0
    cost: float | None = None
    """As reported: some programs report that of the whole session."""
    session_cost: float | None = None
    """What was reported, before the earlier runs of the session were taken off."""
    answer: str = ""
    tools: list[ToolUse] = field(default_factory=list)
    tool_calls: int = 0
    denials: list[ToolUse] = field(default_factory=list)
    deferred: ToolUse | None = None
    deferred_call: Call | None = None
    said: str = ""
    """The last text of the agent before its end."""
    has_ended: bool = False
    """Whether the program has written its last line."""
    problem: str = ""
    """What it said went wrong."""
    cap: str = ""
    """A limit of its own that it reached."""
    session_usage: tuple[int, int] | None = None
    """What was read and written in the whole session, if the program says so."""
    earlier_usage: tuple[int, int] = (0, 0)
    """What earlier runs of the session have read and written."""
    is_in_text: bool = False
    """Whether the next piece of text belongs to the one before it."""
    _answers: set[str] = field(default_factory=set)
    _open: dict[str, ToolUse] = field(default_factory=dict)
    _usage: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out

    @property
    def open_tools(self) -> list[ToolUse]:
        """The calls that have no result yet."""
        return list(self._open.values())

    @property
    def open_keys(self) -> set[str]:
        return set(self._open)

    @property
    def session_tokens(self) -> int | None:
        """The tokens that the reported cost is for, if the program says so."""
        return sum(self.session_usage) if self.session_usage else None

    def raise_tokens(self, tokens_in: int, tokens_out: int) -> None:
        """Note totals of the run: they count what single answers of the model did not."""
        self.tokens_in, self.tokens_out = max(self.tokens_in, tokens_in), max(self.tokens_out, tokens_out)

    def begin_answer(self, key: str) -> bool:
        """Count a turn, unless this answer of the model is known; return whether it is a new one."""
        if key and key in self._answers:
            return False
        self.turns += 1
        if len(self._answers) < MOST_ANSWERS:
            self._answers.add(key[:200])
        return True

    def begin_tool(self, key: str, name: Any, arguments: Any) -> ToolUse:
        """Note a call; only the first ones are kept."""
        use = ToolUse(text_of(name)[:100] or "tool", input_words(arguments))
        self.tool_calls += 1
        if len(self.tools) < MOST_TOOLS:
            self.tools.append(use)
        if len(self._open) < MOST_TOOLS:
            self._open[key] = use
        return use

    def end_tool(self, key: str, outcome: str) -> ToolUse | None:
        use = self._open.pop(key, None)
        if use and use.outcome != "denied":
            use.outcome = outcome
        return use

    def refuse(self, use: ToolUse) -> None:
        """Note that this call was not permitted."""
        use.outcome = "denied"
        if len(self.denials) < MOST_TOOLS:
            self.denials.append(use)

    def deny(self, name: Any, arguments: Any) -> None:
        """Note a call that was not permitted, and mark it in the list of calls."""
        words = text_of(name)[:100] or "tool", input_words(arguments)
        for use in self.tools:
            if (use.name, use.input) == words:
                use.outcome = "denied"
        self.refuse(ToolUse(*words))

    def add_usage(self, key: str, tokens_in: int, tokens_out: int) -> None:
        """Count the tokens of one answer of the model; a program may repeat them with every part of it."""
        if key not in self._usage and len(self._usage) >= MOST_ANSWERS:
            return
        before_in, before_out = self._usage.get(key, (0, 0))
        self._usage[key] = max(before_in, tokens_in), max(before_out, tokens_out)
        self.tokens_in += self._usage[key][0] - before_in
        self.tokens_out += self._usage[key][1] - before_out


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def number_of(value: Any) -> int:
    """Return a count that is not negative; anything else is nothing."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and 0 < value < LARGEST else 0


def money_of(value: Any) -> float | None:
    """Return an amount of money, or None if this is none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < MOST_MONEY else None


def mapping_of(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def input_words(arguments: Any) -> str:
    """Return the beginning of what a tool was called with, in one line: what it runs or where, if it says so."""
    value: Any = arguments
    if isinstance(arguments, dict):
        telling = (arguments.get(name) for name in ("command", "cmd", "file_path", "path", "url", "query"))
        value = next((value for value in telling if isinstance(value, str) and value), None)
        if value is None:
            value = ", ".join(f"{key}={value}" for key, value in list(arguments.items())[:20])
    if isinstance(value, list):
        value = " ".join(map(str, value[:50]))
    return " ".join(str(value if value is not None else "")[: 4 * LONGEST_INPUT].split())[:LONGEST_INPUT]
