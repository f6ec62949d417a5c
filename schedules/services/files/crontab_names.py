"""Derive short names from the commands of a crontab: the program that does the work, and its arguments."""

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import dropwhile
from pathlib import PurePosixPath
from urllib.parse import urlsplit

LONGEST_NAME = 60
# They only prepare or check something; the command after them does the work.
_PREPARATIONS = {
    *(
        ".",
        ":",
        "[",
        "[[",
        "cd",
        "done",
        "echo",
        "esac",
        "exit",
        "export",
        "false",
        "fi",
        "mkdir",
        "pushd",
        "set",
    ),
    *("sleep", "source", "test", "true", "ulimit", "umask", "which"),
}
_KEYWORDS = ("!", "{", "}", "if", "then", "else", "elif", "while", "until", "do")
# Names of scripts that say nothing without their folder.
_VAGUE = ("cron", "index", "job", "main", "run", "script", "start", "task")
# Programs that wrap another one: their options that take a value, and how many values precede the wrapped program.
_WRAPPERS: dict[str, tuple[str, int]] = {
    "chronic": ("", 0),
    "command": ("", 0),
    "cronic": ("", 0),
    "doas": ("-u", 0),
    "env": ("-u -C", 0),
    "exec": ("", 0),
    "flock": ("-w -E -c", 1),
    "ionice": ("-c -n", 0),
    "nice": ("-n", 0),
    "nohup": ("", 0),
    "setsid": ("", 0),
    "sudo": ("-u -g", 0),
    "systemd-cat": ("-t -p", 0),
    "time": ("", 0),
    "timeout": ("-k -s", 1),
}
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
_INTERPRETERS = re.compile(r"(?:python|php|perl|ruby|node|nodejs|Rscript|java|pypy)[\d.]*|(?:ba|da|z|k)?sh")
_ENDINGS = (".sh", ".bash", ".py", ".pl", ".rb", ".php", ".js", ".jar", ".R")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", flags=re.DOTALL)
_REDIRECTION = re.compile(r"(?:&|(?<=\s)\d)?[<>]{1,2}&?\s*(?:\d\b|[^\s;|&<>()]+)")
_PRIVATE = re.compile(r"pass|pwd|token|secret|key|auth|credential", flags=re.IGNORECASE)


def readable_name(command: str) -> str:
    """Return a name like "backup --full" for a shell command, or an empty text."""
    preparation = ""
    for words in _simple_commands(command):
        program, arguments = _without_wrappers(words)
        if script := _script_of_shell(program, arguments):
            return readable_name(script)
        program, arguments = _without_interpreter(program, arguments)
        if program and program not in _PREPARATIONS:
            return _name(program, arguments)
        preparation = preparation or (_name(program, arguments) if program else "")
    return preparation


def _simple_commands(command: str) -> Iterator[list[str]]:
    """Yield the commands between the operators of a shell, each as words without redirections."""
    reader = shlex.shlex(_REDIRECTION.sub(" ", command), posix=True, punctuation_chars=";|&()\n")
    reader.whitespace, reader.whitespace_split, reader.commenters = " \t\r", True, ""
    try:
        tokens = list(reader)
    except ValueError:
        tokens = command.split()
    words: list[str] = []
    for word in [*tokens, ";"]:
        if word and not word.strip(";|&()\n"):
            if words:
                yield words
            words = []
        elif words or word not in _KEYWORDS:
            words.append(word)


def _without_wrappers(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the program and its arguments, without variables and wrappers."""
    rest = list(dropwhile(_ASSIGNMENT.fullmatch, words))
    while rest and (options := _WRAPPERS.get(PurePosixPath(rest[0]).name)):
        with_value, values = options
        rest = _after_options(rest[1:], with_value.split())[values:]
        rest = list(dropwhile(_ASSIGNMENT.fullmatch, rest))
        if rest[:1] == ["-c"] and len(rest) > 1:
            # `flock -c` passes this to a shell.
            return "sh", rest
    return (rest[0], rest[1:]) if rest else ("", [])


def _after_options(words: Sequence[str], with_value: Sequence[str]) -> list[str]:
    rest = list(words)
    while rest and rest[0].startswith("-") and len(rest[0]) > 1:
        rest = rest[2 if rest[0] in with_value else 1 :]
    return rest


def _script_of_shell(program: str, arguments: Sequence[str]) -> str:
    """Return the text after `-c`, or an empty text."""
    options = [word for word in arguments[:2] if re.fullmatch(r"-[a-z]*c", word)]
    if PurePosixPath(program).name not in _SHELLS or not options:
        return ""
    return "".join(arguments[arguments.index(options[0]) + 1 :][:1])


def _without_interpreter(program: str, arguments: Sequence[str]) -> tuple[str, list[str]]:
    """Return the script that an interpreter runs, and its arguments; other programs stay as they are."""
    if not _INTERPRETERS.fullmatch(PurePosixPath(program).name):
        return program, list(arguments)
    for place, word in enumerate(arguments):
        if word == "-m" or not word.startswith("-"):
            rest = list(arguments[place + (word == "-m") :])
            return (rest[0], rest[1:]) if rest else (program, [])
    return program, list(arguments)


def _name(program: str, arguments: Sequence[str]) -> str:
    path = PurePosixPath(program)
    stem = path.name
    for ending in _ENDINGS:
        stem = stem.removesuffix(ending)
    if stem in _VAGUE and path.parent.name not in ("", "bin", "opt"):
        stem = f"{path.parent.name}/{stem}"
    shown = [stem or program, *_shown(stem, arguments)]
    name = ""
    for word in filter(None, shown):
        if len(name) + 1 + len(word) > LONGEST_NAME:
            break
        name = f"{name} {word}".strip()
    return name or stem[:LONGEST_NAME]


def _shown(program: str, arguments: Sequence[str]) -> Iterator[str]:
    """Yield arguments in short, without what may be a password."""
    is_value_private = False
    for word in map(_short, arguments):
        is_private = is_value_private and not word.startswith("-")
        is_value_private = False
        if is_private or (program.startswith(("mysql", "mariadb")) and re.match(r"-p.", word)):
            continue
        if _PRIVATE.search(word):
            option, separator, _ = word.partition("=")
            is_value_private = word.startswith("-") and not separator
            if word.startswith("-"):
                yield option
            continue
        yield word


def _short(word: str) -> str:
    """Return the end of a path, or the host and path of an address; another word as it is."""
    if "://" in word:
        address = urlsplit(word)
        return f"{address.hostname or ''}{address.path.rstrip('/')}"
    option, separator, value = word.rpartition("=")
    path = PurePosixPath(value)
    return f"{option}{separator}{path.name}" if path.is_absolute() else " ".join(word.split())
