"""The machine of the person: ask a question, read and write files, open an editor."""

import os
import sys
from pathlib import Path
from tempfile import mkstemp

import click

from cronty_site.terminal.failures import Failure
from cronty_site.terminal.output import print_message, prints_json
from schedules.services.files.documents import MAX_BYTES

SUFFIXES = (".yaml", ".yml")


def confirm(question: str) -> None:
    """Ask a yes-or-no question; without a yes, the command ends."""
    if not sys.stdin.isatty():
        raise Failure("There is nobody to ask: use --yes.")
    if prints_json():
        print_message({"question": question})
        is_confirmed = click.confirm("", err=True, prompt_suffix="", show_default=False)
    else:
        is_confirmed = click.confirm(question, err=True)
    if not is_confirmed:
        raise Failure("Nothing was changed.", code="declined")


def ask_secret(question: str) -> str:
    """Prompt for a value that is not shown while it is typed."""
    if not prints_json():
        return str(click.prompt(question, err=True, hide_input=True))
    print_message({"question": question})
    return str(click.prompt("", err=True, prompt_suffix="", hide_input=True))


def read_input() -> str | None:
    """Return the content of standard input, or None if it is a terminal."""
    return None if sys.stdin.isatty() else sys.stdin.read()


def read_text(path: str, *, most: int = MAX_BYTES, is_strict: bool = True) -> str:
    """Read a file, or standard input for `-`; a file that changes meanwhile is refused, because it may be incomplete."""
    if path == "-":
        return _decoded("-", sys.stdin.buffer.read(most + 1), is_strict=is_strict)
    try:
        with Path(path).open("rb") as file:
            before = os.fstat(file.fileno())
            content = file.read(most + 1)
            after = os.fstat(file.fileno())
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}.") from error
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise Failure(f"{path}: the file changed while it was read; try again.")
    return _decoded(path, content, is_strict=is_strict)


def read_files(path: str) -> list[dict[str, str]]:
    """Read a file, the YAML files of a folder in order, or standard input; return their names and texts."""
    if not path:
        raise Failure("Name a file, a folder, or - for standard input.", code="invalid")
    folder = Path(path)
    if path != "-" and folder.is_dir():
        files = sorted(file for file in folder.rglob("*") if file.suffix in SUFFIXES and file.is_file())
        if not files:
            raise Failure(f"{path}: there is no .yaml file in this folder.")
        return [{"name": str(file.relative_to(folder)), "text": read_text(str(file))} for file in files]
    return [{"name": path, "text": read_text(path)}]


def source_of(path: str) -> str:
    """Return the name of a file or a folder; a pipe has no lasting name."""
    named = Path(path)
    resolved = named.resolve()
    if path == "-" or (named.exists() and not (resolved.is_file() or resolved.is_dir())):
        return ""
    return f"{resolved.name}/" if resolved.is_dir() else resolved.name


def write_text(path: str, text: str, *, force: bool) -> None:
    """Write a file atomically."""
    target = Path(path)
    if target.exists() and not force:
        raise Failure(f"{path} exists already; use --force to overwrite it.")
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise Failure(f"{path}: {error.strerror}.") from error


def edit(text: str) -> tuple[str, str]:
    """Open a text in $EDITOR; return the name of its file, and the edited text."""
    if not (sys.stdin.isatty() or os.environ.get("VISUAL") or os.environ.get("EDITOR")):
        raise Failure("There is nobody to edit: give fields, or a document with --file.")
    handle, name = mkstemp(prefix="cronty-", suffix=".yaml")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    try:
        click.edit(filename=name)
        return name, read_text(name)
    except click.ClickException as error:
        path = Path(name)
        if path.exists() and path.read_bytes() != text.encode():
            message = f"{error.format_message()}\nYour text is kept in {name}."
            code = error.code if isinstance(error, Failure) else ""
            raise Failure(message, error.exit_code, code=code) from error
        path.unlink(missing_ok=True)
        raise


def _decoded(name: str, content: bytes, *, is_strict: bool) -> str:
    try:
        return content.decode("utf-8-sig", "strict" if is_strict else "replace")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        place = f"{before.count(10) + 1}:{error.start - before.rfind(10)}"
        raise Failure(f"{name}:{place}: this is not UTF-8 text.", code="invalid") from error
