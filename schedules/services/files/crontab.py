"""Parse a crontab: each line becomes an entry with its zone, environment and comment, or is left out with a reason."""

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import PurePosixPath

from schedules.when import durations
from schedules.when.cron import CronError
from schedules.when.random_ranges import choose_values
from schedules.when.spread import longest_spread
from schedules.when.triggers import TriggerError, cron_trigger, load_zone
from schedules.when.unplanned import AtStart, Unplanned

MAX_LINES = 10_000
COMMON_SHELLS = ("/bin/sh", "/bin/bash", "/usr/bin/bash")
DEFAULT_SHELL = "/bin/sh"
# Cron sets this PATH, whatever the environment of the host is.
DEFAULT_PATH = "/usr/bin:/bin"
LONGEST_COMMAND = 8000
_VARIABLE = re.compile(
    r"""\s*(?P<quote>["']?)(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P=quote)\s*=\s*(?P<value>.*)"""
)
_MACRO = re.compile(r"(?P<schedule>@\w+)\s+(?P<rest>.*)")
_FIELDS = re.compile(r"-?(?P<schedule>\S+\s+\S+\s+\S+\s+\S+\s+\S+)\s+(?P<rest>.*)")
# The line that names the fields, as `crontab -e` writes it: "m h  dom mon dow   command".
_NAMES_OF_FIELDS = re.compile(r"m(in(utes?)?)?\s+h(ours?)?\s+(dom|day)", flags=re.IGNORECASE)
# Parts of a schedule that Cronty reads and cron does not: the last day, and the nth weekday.
_NOT_IN_CRON = re.compile(r"(?<![A-Z])\d?L\b|#", flags=re.IGNORECASE)
_MINUTES = re.compile(r"\d{0,6}", flags=re.ASCII)
_SIXTH_FIELD = re.compile(r"[\d*?/,-]+\s")
_USER = re.compile(r"(?P<user>\S+)\s+(?P<rest>.*)")
# Redirections that only silence output; Cronty stores the output of every run instead of mailing it.
# A number before > is a stream only after a blank: in "server1>/dev/null", it is part of the argument.
_REDIRECTED = re.compile(r"(?:&|(?<=\s)[12]|(?<!\s\d))>>?\Z")
# A trailing & is dropped: here, a background process would be killed at the end of the run.
_IN_BACKGROUND = re.compile(r"(?<![&\\])&\s*$")
_SHELL_SYNTAX = re.compile(r"[|&;<>()$`\\*?\[\]#~{}!\n]")
_SHELL_WORDS = {
    ".",
    "[",
    "cd",
    "eval",
    "exec",
    "export",
    "if",
    "for",
    "while",
    "set",
    "source",
    "test",
    "trap",
    "ulimit",
    "umask",
    ":",
}
_UNSUPPORTED = {
    "MAILTO": "mail is not sent; Cronty keeps the output, and alerts go where your preferences say",
    "MAILFROM": "mail is not sent",
    "CONTENT_TYPE": "mail is not sent",
    "CONTENT_TRANSFER_ENCODING": "mail is not sent",
    "START_HOURS_RANGE": "it belongs to anacron",
    "LOGNAME": "commands run as the user who runs Cronty",
    "USER": "commands run as the user who runs Cronty",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One line that runs something."""

    line: int
    schedule: str
    timezone: str
    command: str
    """The command as cron passes it to the shell."""
    words: list[str] | None
    """The program and its arguments, or None if the command needs a shell."""
    shell: str
    environment: dict[str, str]
    directory: str
    comment: str
    user: str = ""
    """The user it runs as, if that is not the user who runs Cronty."""
    input: str | None = None
    """The standard input of its command: what follows the first % of the line."""
    spread: timedelta = timedelta(0)
    """The longest random delay of its runs."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A line that is not taken over, or only with a change, and why."""

    line: int
    text: str
    reason: str


@dataclass(slots=True)
class Crontab:
    """The entries of a crontab, the lines that are left out, and those whose effect is not the same here."""

    entries: list[Entry] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    changed: list[LeftOut] = field(default_factory=list)


@dataclass(slots=True)
class _State:
    """The settings that apply to the lines below."""

    timezone: str
    home: str
    host_timezone: str
    shell: str = DEFAULT_SHELL
    zone_problem: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    comment: list[str] = field(default_factory=list)
    spread: timedelta = timedelta(0)
    host: str = ""
    home_of: Callable[[str], str | None] = lambda user: None

    @property
    def has_usual_shell(self) -> bool:
        """Whether a command without any syntax of a shell means the same without one."""
        return self.shell in COMMON_SHELLS and self.environment.keys().isdisjoint(("BASH_ENV", "ENV"))


def parse_crontab(
    text: str,
    *,
    timezone: str,
    user: str,
    home: str,
    has_users: bool = False,
    host: str = "",
    home_of: Callable[[str], str | None] = lambda user: None,
) -> Crontab:
    """Parse a crontab; `has_users` is for system crontabs, whose lines name a user before the command.

    `host` makes the values of random ranges differ between hosts with the same lines. `home_of` returns the home folder of
    another user, or None if Cronty cannot run commands as that user, which only root can.
    """
    crontab, state = Crontab(), _State(timezone, home, timezone, host=host, home_of=home_of)
    for number, line in enumerate(text.splitlines()[:MAX_LINES], 1):
        stripped = line.strip()
        if not stripped:
            state.comment = []
        elif stripped.startswith("#"):
            _note_comment(state, stripped)
        elif variable := _VARIABLE.fullmatch(line):
            _set_variable(crontab, state, number, variable["name"], _unquoted(variable["value"]))
            state.comment = []
        else:
            match _entry(state, number, stripped, user if has_users else None):
                case Entry() as entry:
                    crontab.entries.append(entry)
                    if entry.spread < state.spread:
                        crontab.changed.append(_shortened_delay(state, entry))
                case left_out:
                    crontab.left_out.append(left_out)
            state.comment = []
    return crontab


def _note_comment(state: _State, line: str) -> None:
    """Remember a comment for the line below it; words begin with a letter, unlike headings and commented-out lines."""
    text = line.strip("# \t")
    if text[:1].isalpha() and not _NAMES_OF_FIELDS.match(text) and not _VARIABLE.fullmatch(text):
        state.comment.append(text)
    else:
        state.comment = []


def _set_variable(crontab: Crontab, state: _State, number: int, name: str, value: str) -> None:
    match name:
        case "CRON_TZ" if not value:
            state.timezone, state.zone_problem = state.host_timezone, ""
        case "CRON_TZ":
            try:
                load_zone(value)
                state.timezone, state.zone_problem = value, ""
            except TriggerError as error:
                state.zone_problem = f"CRON_TZ={value}: {error.reason}"
        case "SHELL":
            state.shell = value or DEFAULT_SHELL
        case "HOME":
            state.home = value
            state.environment["HOME"] = value
        case "RANDOM_DELAY" if _MINUTES.fullmatch(value):
            state.spread = timedelta(minutes=int(value or 0))
        case "RANDOM_DELAY":
            crontab.changed.append(LeftOut(number, f"{name}={value}"[:200], "it is not a number of minutes"))
        case "MAILTO" if not value:
            # With an empty MAILTO, cron sends no mail either.
            pass
        case _ if name in _UNSUPPORTED:
            crontab.changed.append(LeftOut(number, f"{name}={value}", _UNSUPPORTED[name]))
        case _:
            state.environment[name] = value


def _entry(state: _State, number: int, line: str, user: str | None) -> Entry | LeftOut:
    """Read a line that runs something; in a system crontab, `user` is the user who runs Cronty, otherwise None."""

    def left_out(reason: str) -> LeftOut:
        return LeftOut(number, line[:200], reason)

    match = _MACRO.fullmatch(line) or _FIELDS.fullmatch(line)
    if match is None:
        return left_out("this is neither five fields and a command, nor a variable")
    rest = match["rest"].strip()
    home, runs_as = state.home, ""
    if user is not None:
        with_user = _USER.fullmatch(rest)
        if with_user is None:
            return left_out("a line of a system crontab names a user before the command")
        if with_user["user"] != user:
            runs_as = with_user["user"]
            own_home = state.home_of(runs_as)
            if own_home is None:
                return left_out(f"it runs as {runs_as}, but Cronty runs commands as {user}")
            home = state.environment.get("HOME", own_home)
        rest = with_user["rest"]
    if state.zone_problem:
        return left_out(state.zone_problem)
    try:
        schedule = choose_values(" ".join(match["schedule"].split()), seed=f"{state.host} {rest}")
        trigger = cron_trigger(schedule, state.timezone)
    except TriggerError as error:
        return left_out(error.reason)
    except CronError as error:
        return left_out(str(error))
    if isinstance(trigger, Unplanned) and not isinstance(trigger, AtStart):
        return left_out("cron does not know this macro")
    if _NOT_IN_CRON.search(schedule):
        return left_out(
            f'cron knows neither L nor #, so this never ran; `cronty add "{schedule}"` understands it'
        )
    command, standard_input = _split_at_percent(rest)
    command = _IN_BACKGROUND.sub("", command).rstrip()
    if not command:
        return left_out("there is no command")
    if _SIXTH_FIELD.match(command):
        return left_out("the command begins with a sixth field: cron has five, without seconds or years")
    if len(rest) > LONGEST_COMMAND or "${secret:" in rest or "\0" in rest:
        return left_out("this command cannot be written into commands.toml")
    return Entry(
        number,
        schedule,
        state.timezone,
        command,
        _plain_words(command, home) if state.has_usual_shell else None,
        state.shell,
        {"PATH": DEFAULT_PATH, **state.environment},
        home,
        " ".join(state.comment),
        runs_as,
        standard_input,
        min(state.spread, longest_spread(trigger)),
    )


def _shortened_delay(state: _State, entry: Entry) -> LeftOut:
    minutes = state.spread // timedelta(minutes=1)
    if entry.spread:
        again = durations.in_words(entry.spread)
        reason = f"line {entry.line} runs again after {again}, so its delay stays below that"
    else:
        reason = f"line {entry.line} runs when the machine starts, without a delay"
    return LeftOut(entry.line, f"RANDOM_DELAY={minutes}", reason)


def _split_at_percent(text: str) -> tuple[str, str | None]:
    r"""Split a command from its input at the first % that is not escaped as \%; further ones are line breaks of the input."""
    command, separator, standard_input = text.replace(r"\%", "\0").partition("%")
    if not separator:
        return command.replace("\0", "%").strip(), None
    lines = standard_input.replace("%", "\n").replace("\0", "%")
    # Cron adds a line break at the end.
    return command.replace("\0", "%").strip(), lines + "\n" * (lines[-1:] not in ("", "\n"))


def _plain_words(command: str, home: str) -> list[str] | None:
    """Return the program and its arguments if they mean the same without a shell, else None."""
    text = _without_silencing(command)
    if _SHELL_SYNTAX.search(text):
        return None
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    if not words or "=" in words[0] or words[0] in _SHELL_WORDS:
        return None
    if "/" in words[0] and not words[0].startswith("/"):
        words[0] = str(PurePosixPath(home) / words[0])
    return words


def _without_silencing(command: str) -> str:
    """Cut redirections that only silence output from the end, one after the other."""
    text = command.rstrip()
    while True:
        before = text.removesuffix("2>&1")
        if before != text and before.endswith((" ", "\t", "/dev/null")):
            text = before.rstrip()
        elif text.endswith("/dev/null"):
            before = text.removesuffix("/dev/null").rstrip()
            if (sign := _REDIRECTED.search(before, max(0, len(before) - 3))) is None:
                return text
            text = before[: sign.start()].rstrip()
        else:
            return text


def _unquoted(value: str) -> str:
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value
