"""How settings are read from the environment: every reader refuses nonsense loudly."""

import json
import os
import re
import secrets
import shlex
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from tempfile import NamedTemporaryFile
from urllib.parse import parse_qs, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured


def load_dotenv(path: Path) -> None:
    """Take `NAME=value` lines from a file; the real environment wins."""
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        name, separator, value = line.strip().removeprefix("export ").partition("=")
        if separator and not name.startswith("#"):
            os.environ.setdefault(name.strip(), value.strip().strip("\"'"))


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, "").strip() or default


def secret(name: str, default: str = "") -> str:
    """Read a secret from `NAME`, or from the file that `NAME_FILE` points at."""
    path = text(f"{name}_FILE")
    return Path(path).read_text(encoding="utf-8").strip() if path else text(name, default)


def boolean(name: str, default: bool) -> bool:
    value = text(name, str(default)).lower()
    if value in {"1", "true", "yes", "on"}:
        return True
    if value in {"0", "false", "no", "off"}:
        return False
    raise ImproperlyConfigured(f"{name}: use true or false, not {value!r}.")


def integer(name: str, default: int, *, minimum: int = 0) -> int:
    value = text(name, str(default))
    if not re.fullmatch(r"[0-9]{1,12}", value) or int(value) < minimum:
        raise ImproperlyConfigured(f"{name}: use a whole number of at least {minimum}, not {value!r}.")
    return int(value)


def words(name: str, default: str = "") -> list[str]:
    """Split a list at commas and blanks."""
    return text(name, default).replace(",", " ").split()


def command(name: str) -> list[str]:
    """Read an argument list: a JSON array, or one line as a shell would split it (no shell ever runs it)."""
    value = text(name)
    try:
        arguments = json.loads(value) if value.startswith("[") else shlex.split(value)
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}: not a command line or JSON array ({error}).") from error
    if not all(isinstance(argument, str) for argument in arguments):
        raise ImproperlyConfigured(f"{name}: every argument must be a string.")
    return list(arguments)


def web_address(name: str, default: str) -> str:
    """Read a public http(s) address, without its trailing slash."""
    value = text(name, default).rstrip("/")
    try:
        parts = urlsplit(value)
        is_address = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise ImproperlyConfigured(f"{name}: use an address like https://cronty.example, not {value!r}.")
    return value


def host_in_address(host: str) -> str:
    """Write a host as an address has it: IPv6 in brackets, and this machine for what listens everywhere."""
    try:
        address = ip_address(host)
    except ValueError:
        return host or "127.0.0.1"
    if address.version == 4:
        return "127.0.0.1" if address.is_unspecified else host
    return "[::1]" if address.is_unspecified else f"[{host}]"


def generated_secret(path: Path) -> str:
    """Return the secret kept in a file, making it the first time; two processes agree on one."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        # Linked to its name when it is whole: nobody ever reads half of one, and of two the first stays.
        with NamedTemporaryFile("w", dir=path.parent) as file, suppress(FileExistsError):
            file.write(secrets.token_urlsafe(64))
            file.flush()
            os.link(file.name, path)
    return path.read_text(encoding="utf-8").strip()


def email_settings(name: str) -> dict[str, object]:
    """Turn `smtp://user:password@host:587?tls=true` into Django's e-mail settings; empty prints to the console."""
    value = secret(name)
    if not value:
        return {"EMAIL_BACKEND": "django.core.mail.backends.console.EmailBackend"}
    parts = urlsplit(value)
    if parts.scheme not in {"smtp", "smtps"} or not parts.hostname:
        raise ImproperlyConfigured(f"{name}: use smtp://user:password@host:587?tls=true.")
    use_ssl = parts.scheme == "smtps"
    return {
        "EMAIL_HOST": parts.hostname,
        "EMAIL_PORT": parts.port or (465 if use_ssl else 25),
        "EMAIL_HOST_USER": unquote(parts.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
        "EMAIL_USE_SSL": use_ssl,
        "EMAIL_USE_TLS": parse_qs(parts.query).get("tls") == ["true"],
    }
