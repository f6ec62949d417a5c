"""Runners as the operator defines them in runners.toml: parsing and validation, without files or a database."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from schedules.agents.adapters import ADAPTERS
from schedules.secrets.references import names_in
from schedules.tasks.commands.parameters import Line, Table
from schedules.tasks.grants import covers
from schedules.tasks.operator_files.tables import (
    OperatorFileError,
    Template,
    Timeout,
    VariableName,
    absolute,
    line_of,
    parse_tables,
    without_nul,
)

RunnerKind = Literal["claude", "codex", "gemini", "opencode", "command", "webhook", "inbox"]
Word = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(without_nul)]
ParameterName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,99}$")]
MAX_TOOLS = 200
# The kinds of runners that start a program.
_PROGRAM_KINDS = (*ADAPTERS, "command")
# The kinds that report what limits in these units are compared with; others would be bounded by nothing.
_KINDS_THAT_REPORT = {
    "tokens": (*ADAPTERS, "webhook"),
    "money": tuple(kind for kind, adapter in ADAPTERS.items() if adapter.reports_money),
}


def _program(text: str) -> str:
    if names_in(text):
        raise ValueError("a program cannot be chosen by a secret")
    if "/" in text and not text.startswith("/"):
        raise ValueError("give the whole path, from / on, or a name that PATH finds")
    return text


def _tool(text: str) -> str:
    if text.startswith("-") or "," in text:
        raise ValueError("write one tool per entry, without a comma, and not with - first")
    return text


Tool = Annotated[Word, AfterValidator(_tool)]
Amount = Annotated[int, Field(ge=1, le=10**12)]
Money = Annotated[float, Field(gt=0, le=1_000_000)]


def dollars(amount: float) -> str:
    return f"${amount:,.2f}" if round(amount, 2) == amount else f"${amount:g}"


class Caps(Table):
    """How much may be spent within one day."""

    runs: Amount | None = None
    minutes: Annotated[float, Field(gt=0, le=1_000_000)] | None = None
    tokens: Amount | None = None
    money: Money | None = None

    def in_words(self, each: str) -> list[str]:
        amounts = [
            f"{self.runs:,} {'run' if self.runs == 1 else 'runs'}" if self.runs else "",
            f"{self.minutes:g} min" if self.minutes else "",
            f"{self.tokens:,} tokens" if self.tokens else "",
            dollars(self.money) if self.money else "",
        ]
        return [f"{amount} {each}" for amount in amounts if amount]


class Runner(Table):
    """One runner: the program or address that gets prompts, its tools and limits, and who may use it."""

    description: Line
    kind: RunnerKind
    program: Annotated[Word, AfterValidator(_program)] | None = None
    arguments: Annotated[list[Template], Field(max_length=100)] = []
    directory: Annotated[str, AfterValidator(without_nul), AfterValidator(absolute)] | None = None
    environment: dict[VariableName, Template] = {}
    url: Annotated[str, Field(max_length=2000)] | None = None
    headers: dict[str, Template] = {}
    model: Word | None = None
    parameters: dict[ParameterName, str | int | float | bool] = {}
    tools: Annotated[list[Tool], Field(max_length=MAX_TOOLS)] = []
    grantable: Annotated[list[Tool], Field(max_length=MAX_TOOLS)] = []
    may_ask: bool = False
    answer_within: Timeout = timedelta(days=1)
    wait_within: Timeout | None = None
    mode: Word | None = None
    bypass_permissions: bool = False
    session: Literal["new", "continue"] = "new"
    preamble: bool = True
    max_time: Timeout | None = None
    max_turns: Annotated[int, Field(ge=1, le=10_000)] | None = None
    max_tokens: Amount | None = None
    max_money: Money | None = None
    at_once: Annotated[int, Field(ge=1, le=100)] = 2
    per_day: Caps = Caps()
    per_person_per_day: Caps = Caps()
    per_job_per_day: Caps = Caps()
    output_characters: Annotated[int, Field(ge=1000, le=1_000_000)] = 64_000
    allow: Annotated[list[Literal["staff", "everyone", "agents"]], Field(min_length=1)] = ["staff"]
    users: list[Word] = []
    default: bool = False

    @property
    def secrets(self) -> set[str]:
        """The names of the secrets that the file refers to."""
        return names_in([self.arguments, self.environment, self.headers, self.url])

    @property
    def keeps_session(self) -> bool:
        """Whether a run can continue the session of an earlier one."""
        adapter = ADAPTERS.get(self.kind)
        return adapter is not None and adapter.can_resume

    @property
    def command(self) -> list[str]:
        """The program and its own arguments, with references to secrets."""
        adapter = ADAPTERS.get(self.kind)
        program = self.program or (adapter.program if adapter else "")
        return [program, *self.arguments]

    def refusal(self, user: Any, is_agent: bool, name: str) -> str | None:
        """Return why a user, or their agent, may not use it, or None."""
        is_listed = user.get_username() in self.users
        if not ("everyone" in self.allow or getattr(user, "is_staff", False) or is_listed):
            return f"The runner {name} is not open to this user: the operator can add them to its users."
        if is_agent and "agents" not in self.allow:
            return f"Agents may not use the runner {name}."
        return None

    def ungrantable(self, grants: Iterable[str]) -> str | None:
        """Return why a job's runs must not have these grants, or None."""
        for grant in grants:
            if not any(covers(allowed, grant) for allowed in self.grantable):
                return f"does not allow the permission {grant}: the operator can add it to its grantable."
        return None

    def limits_in_words(self) -> str:
        """Return its limits for people and agents, or an empty text."""
        parts = [
            f"{self.max_time / timedelta(minutes=1):g} min" if self.max_time else "",
            f"{self.max_turns:,} turns" if self.max_turns else "",
            f"{self.max_tokens:,} tokens" if self.max_tokens else "",
            dollars(self.max_money) if self.max_money else "",
            *self.per_day.in_words("a day"),
            *self.per_person_per_day.in_words("a day per person"),
            *self.per_job_per_day.in_words("a day per job"),
        ]
        return ", ".join(filter(None, parts))

    @model_validator(mode="after")
    def _fits_its_kind(self) -> "Runner":
        adapter = ADAPTERS.get(self.kind)
        self._check_places()
        self._check_limits()
        if adapter is None:
            for name in (
                *("model", "mode", "parameters", "tools", "grantable", "bypass_permissions"),
                "max_turns",
            ):
                if getattr(self, name):
                    raise ValueError(f"{name}: a runner of kind {self.kind} has none")
        else:
            adapter.check(self)
        if self.may_ask and self.kind == "inbox":
            raise ValueError("may_ask: an agent that takes a prompt from the inbox asks by itself")
        if self.wait_within and not (self.may_ask and adapter and adapter.can_defer):
            raise ValueError("wait_within: only a runner of kind claude with may_ask waits while it runs")
        if self.session == "continue" and not self.keeps_session:
            raise ValueError(f"session: a runner of kind {self.kind} keeps no session")
        for name in ("session",) * (self.session == "continue") + ("may_ask",) * (
            self.may_ask and self.keeps_session
        ):
            if "HOME" not in self.environment or not self.directory:
                raise ValueError(
                    f"{name}: programs keep sessions by folder, in their home: set directory, and HOME in the"
                    " environment; the folder of a run is deleted"
                )
        return self

    def _check_limits(self) -> None:
        """Refuse limits that would have no effect, because a runner of this kind does not report what they limit."""
        limits = {name: getattr(self, name) for name in ("max_time", "max_turns", "max_tokens", "max_money")}
        limits["at_once"] = self.at_once if "at_once" in self.model_fields_set else None
        for name in ("per_day", "per_person_per_day", "per_job_per_day"):
            limits |= {f"{name}.{unit}": amount for unit, amount in getattr(self, name)}
        for name, amount in limits.items():
            if amount is None:
                continue
            if self.kind == "inbox":
                raise ValueError(
                    f"{name}: prompts in the inbox have no limits; every other kind of runner has"
                )
            unit = name.rpartition("." if "." in name else "_")[2]
            kinds = _KINDS_THAT_REPORT.get(unit, (self.kind,))
            if self.kind not in kinds:
                raise ValueError(
                    f"{name}: a runner of kind {self.kind} does not report {unit}, only {', '.join(kinds)} do; limit"
                    " its time or its runs instead"
                )

    def _check_places(self) -> None:
        if self.kind == "command" and not self.program:
            raise ValueError("program: field required for a runner of kind command")
        if self.arguments and self.kind != "command":
            raise ValueError(
                "arguments: write parameters instead; only a runner of kind command has arguments"
            )
        if (self.kind == "webhook") != (self.url is not None):
            raise ValueError("url: a runner of kind webhook has one, and no other kind")
        if self.headers and self.kind != "webhook":
            raise ValueError("headers: only a runner of kind webhook sends headers")
        if self.kind not in _PROGRAM_KINDS:
            for name in ("program", "directory", "environment"):
                if getattr(self, name):
                    raise ValueError(f"{name}: a runner of kind {self.kind} starts no program")


def parse(text: str) -> dict[str, Runner]:
    """Return the runners of a file by name, or raise OperatorFileError with every problem."""
    runners = parse_tables(text, Runner)
    defaults = [name for name, runner in runners.items() if runner.default]
    if len(defaults) > 1:
        raise OperatorFileError(
            f"{defaults[1]}: {defaults[0]} is the default already", line_of(text, [defaults[1], "default"])
        )
    return runners
