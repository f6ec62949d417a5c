"""Read and validate environment variables; an error names the variable and says what to write."""

import json
import os
import re
import secrets
import shlex
import stat
import zoneinfo
from contextlib import suppress
from difflib import get_close_matches
from importlib.util import find_spec
from ipaddress import ip_address, ip_network
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from zoneinfo import ZoneInfo

import dj_database_url
from django.core.exceptions import ImproperlyConfigured
from platformdirs import user_data_path

from schedules.management.running_server import noted_address
from schedules.tasks.outbound.destinations import parse_destination
from schedules.tasks.outbound.headers import setting_problem

# Whether reading a setting creates missing folders and keys. A command that only uses an installation turns this off,
# and `missing` lists the files that do not exist.
creates = True
missing: list[Path] = []
# Whether this process prints the address of the last web process, unless variables name one.
finds_server = False

# Variables that settings have read, and those that commands, clients of agents and shells read.
_registered = {
    "CRONTY_USER",
    *(f"CRONTY_{name}" for name in ("TOKEN", "TOKEN_FILE", "PING_KEY", "PING_KEY_FILE", "SPOOL", "REMOTE")),
    "CRONTY_MCP_URL",
    *(f"CRONTY_{name}" for name in ("JOB", "EXECUTION", "ATTEMPT", "OWNER", "SCHEDULED_FOR", "IN_RUN")),
}


def refuse(name: str, fix: str) -> ImproperlyConfigured:
    return ImproperlyConfigured(f"{name}: {fix}")


def load_dotenv(path: Path) -> None:
    """Read `NAME=value` lines from a file; the real environment takes precedence."""
    try:
        if not path.is_file():
            return
        mode = path.stat().st_mode
    except OSError as error:
        raise refuse("CRONTY_DATA", f"{path} cannot be read ({error.strerror}).") from error
    if mode & stat.S_IWOTH:
        raise refuse(
            path.name,
            f"every user of this machine can change it: read it, then chmod go= {shlex.quote(str(path))}",
        )
    for line in _content(path.name, path).splitlines():
        name, separator, value = line.strip().removeprefix("export ").partition("=")
        if separator and not name.startswith("#"):
            os.environ.setdefault(name.strip(), value.strip().strip("\"'"))


def unknown_variables() -> dict[str, str]:
    """Return the CRONTY_ variables that nothing reads, each with the most similar valid name, if any."""
    unknown = sorted(name for name in os.environ if name.startswith("CRONTY_") and name not in _registered)
    return {name: next(iter(get_close_matches(name, _registered, 1)), "") for name in unknown}


def text(name: str, default: str = "") -> str:
    _registered.add(name)
    return os.environ.get(name, "").strip() or default


def secret(name: str, default: str = "") -> str:
    """Read a secret from `NAME`, or from the file named by `NAME_FILE`."""
    _registered.add(name)
    path = text(f"{name}_FILE")
    return _content(f"{name}_FILE", Path(path)).strip() if path else text(name, default)


def boolean(name: str, default: bool) -> bool:
    return _truth(name, text(name, str(default)))


def integer(name: str, default: int, *, minimum: int, maximum: int) -> int:
    value = text(name, str(default))
    if not re.fullmatch(r"[0-9]{1,12}", value) or not minimum <= int(value) <= maximum:
        raise refuse(name, f"use a whole number from {minimum} to {maximum}, not {value!r}.")
    return int(value)


def choice(name: str, default: str, choices: tuple[str, ...]) -> str:
    """Read one of these choices, in any case."""
    value = text(name, default).upper()
    if value not in choices:
        raise refuse(name, f"use one of {', '.join(choices)}, not {value!r}.")
    return value


def words(name: str, default: str = "") -> list[str]:
    """Read a list separated by commas or spaces."""
    return text(name, default).replace(",", " ").split()


def apps(name: str) -> list[str]:
    """Read a list of Django apps: packages, or paths of AppConfig classes, that Python can import."""
    names = words(name)
    for app in names:
        parent, _, last = app.rpartition(".")
        if not _is_importable(parent if last[:1].isupper() else app):
            raise refuse(name, f"{app!r} cannot be imported; install it, or put it into CRONTY_DATA/apps.")
    return names


def command(name: str) -> list[str]:
    """Read an argument list: a JSON array, or a line that is split as in a shell, but run without one."""
    value = text(name)
    try:
        arguments = json.loads(value) if value.startswith("[") else shlex.split(value)
    except ValueError as error:
        raise refuse(name, f"not a command line or JSON array ({error}).") from error
    if not all(isinstance(argument, str) for argument in arguments):
        raise refuse(name, "every argument must be a string.")
    return list(arguments)


def users(name: str) -> list[str]:
    """Read a list of login names, or `*` for everybody."""
    names = words(name)
    if "*" in names and len(names) > 1:
        raise refuse(name, "use * alone for everybody, or only login names.")
    return names


def destinations(name: str) -> list[str]:
    """Read a list of networks (10.0.0.0/8), hosts (nas.local) and hosts with a port (nas.local:8080)."""
    entries = words(name)
    for entry in entries:
        try:
            parse_destination(entry)
        except ValueError as error:
            raise refuse(name, str(error)) from error
    return entries


def header_names(name: str) -> list[str]:
    """Read the names of request headers that webhooks may set."""
    headers = words(name)
    if problem := next(filter(None, map(setting_problem, headers)), None):
        raise refuse(name, problem)
    return headers


def networks(name: str) -> list[str]:
    """Read a list of IP addresses and networks."""
    entries = words(name)
    for entry in entries:
        try:
            ip_network(entry)
        except ValueError as error:
            raise refuse(
                name, f"use IP addresses and networks like 127.0.0.1 or 10.0.0.0/8, not {entry!r}."
            ) from error
    return entries


def zone_data(name: str) -> str:
    """Choose the source of zone data for this process: the pinned `tzdata` package, or the system's files.

    Settings call this before anything uses a zone. With the default, all hosts compute the same moments.
    """
    value = text(name, "package").lower()
    if value not in {"package", "system"}:
        raise refuse(name, f"use package (the pinned tzdata package) or system, not {value!r}.")
    if value == "package":
        zoneinfo.reset_tzpath(to=[])
        ZoneInfo.clear_cache()
    return value


def time_zone(name: str, default: str) -> str:
    value = text(name, default)
    try:
        ZoneInfo(value)
    except (KeyError, ValueError, OSError) as error:
        raise refuse(name, f"use the name of a zone, like Europe/Berlin, not {value!r}.") from error
    return value


def host(name: str, default: str) -> str:
    """Read an IP address or a host name to listen on."""
    value = text(name, default)
    with suppress(ValueError):
        return str(ip_address(value))
    is_name = re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?", value)
    if not is_name or re.fullmatch(r"[0-9.]+", value):
        raise refuse(name, f"use an IP address or a host name, like 127.0.0.1, not {value!r}.")
    return value


def web_address(name: str, default: str) -> str:
    """Read a public http(s) address, without its trailing slash."""
    value = text(name, default).rstrip("/")
    if not _is_web_address(value):
        raise refuse(name, f"use an address like https://cronty.example, not {value!r}.")
    return value


def secret_address(name: str) -> str:
    """Read a secret http(s) address, or an empty text."""
    value = secret(name)
    if value and not _is_web_address(value):
        raise refuse(name, "use an address that begins with https:// or http://.")
    return value


def site_address(name: str, default: str) -> str:
    """Read the public address of the pages; it has no path, and no login, which every link would show."""
    value = web_address(name, default)
    if re.search(r"[/?#@]", value.partition("://")[2]):
        raise refuse(name, "use an address without a path or a login, like https://cronty.example.")
    return value


def address_of_server(folder: Path, default: str) -> str:
    """Return the address that the last web process serves with this data folder, or this default."""
    names = ("CRONTY_URL", "CRONTY_HOST", "CRONTY_PORT")
    is_named = any(os.environ.get(name) for name in names)
    return (noted_address(folder) if finds_server and not is_named else "") or default


def is_checkout(folder: Path) -> bool:
    """Return whether Cronty runs from its source code, and not from an installed package."""
    return all((folder / name).is_file() for name in ("manage.py", "pyproject.toml"))


def data_folder(source: Path) -> Path:
    """Return the default data folder: beside the source code, or for a package the user's data folder."""
    return source / "data" if is_checkout(source) else user_data_path("cronty", appauthor=False)


def folder(name: str, default: Path) -> Path:
    """Read the path of a folder, and create it if `creates` is set."""
    path = Path(text(name, str(default))).resolve()
    if not creates:
        return path
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise refuse(
            name, f"the folder {path} cannot be created ({error.strerror}); choose another."
        ) from error
    if not os.access(path, os.R_OK | os.X_OK):
        raise refuse(name, f"the folder {path} cannot be read; change its rights, or choose another.")
    return path


def file(name: str, default: Path) -> str:
    """Read the path of a file, which need not exist yet; its folder must."""
    # Links are not resolved: their owner is checked when the file is read.
    path = Path(text(name, str(default))).absolute()
    if path.is_dir() or (creates and not path.parent.is_dir()):
        raise refuse(name, f"use the path of a file in a folder that exists, not {str(path)!r}.")
    return str(path)


def secret_key(name: str) -> str:
    """Read a key that signs sessions and tokens, or an empty text; refuse one that could be guessed."""
    value = secret(name)
    if value and _can_be_guessed(value):
        raise refuse(name, "use at least 32 random characters, for example from `openssl rand -base64 48`.")
    return value


def generated_secret(name: str, path: Path) -> str:
    """Return the secret key in a file, which is generated the first time; refuse one that could be guessed.

    `name` is the variable that sets the folder.
    """
    if not creates and not path.exists():
        missing.append(path)
        return secrets.token_urlsafe(64)
    try:
        if not path.exists():
            # Link the complete file, so that no process reads half a secret, and the first of two processes wins.
            with NamedTemporaryFile("w", dir=path.parent) as file, suppress(FileExistsError):
                file.write(secrets.token_urlsafe(64))
                file.flush()
                os.link(file.name, path)
    except OSError as error:
        raise refuse(name, f"{path} cannot be written ({error.strerror}); choose another folder.") from error
    value = _content(name, path).strip()
    if _can_be_guessed(value):
        raise refuse(
            name,
            f"{path} holds no key of at least 32 random characters;"
            " copy the file from a backup, or delete it to get a new key.",
        )
    return value


def database(name: str, default: str, **options: Any) -> dj_database_url.DBConfig:
    """Read the address of a database; errors do not show it, because it may contain a password."""
    usage = "use postgres://user:password@host:5432/name or sqlite:////path/to/file."
    value = secret(name)
    try:
        config = dj_database_url.parse(value or default, **options)
    except ValueError as error:
        raise refuse(name, f"not a database address; {usage}") from error
    engine, file = config.get("ENGINE"), Path(config.get("NAME") or ":memory:").absolute()
    if engine not in {"django.db.backends.sqlite3", "django.db.backends.postgresql"}:
        raise refuse(name, f"Cronty runs on PostgreSQL and SQLite only; {usage}")
    # In memory, each process would have its own database.
    if file.name == ":memory:":
        raise refuse(name, f"it names no database; {usage}")
    if engine == "django.db.backends.sqlite3" and not creates and not file.exists():
        missing.append(file)
    elif engine == "django.db.backends.sqlite3" and not os.access(file.parent, os.W_OK):
        if not value:
            raise refuse(
                "CRONTY_DATA",
                f"the folder {file.parent} cannot be written; change its rights, or choose another.",
            )
        raise refuse(name, f"there is no folder {file.parent} that Cronty may write to; {usage}")
    return config


def email_settings(name: str, sender: str) -> dict[str, object]:
    """Turn `smtp://user:password@host:587?tls=true&from=me@host` into Django's e-mail settings.

    Without a mail server, messages go to the console.
    """
    value = secret(name)
    if not value:
        return {"EMAIL_BACKEND": "django.core.mail.backends.console.EmailBackend"}
    try:
        parts = urlsplit(value)
        is_server = parts.scheme in {"smtp", "smtps"} and parts.hostname and parts.port != 0
    except ValueError:
        is_server = False
    if not is_server:
        raise refuse(name, "use smtp://user:password@host:587?tls=true&from=cronty@host.")
    use_ssl, options = parts.scheme == "smtps", dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := options.keys() - {"tls", "from"}:
        raise refuse(name, f"the options after ? are tls and from, not {min(unknown)!r}.")
    use_tls = _truth(f"{name}: tls", options.get("tls", "false"))
    if use_ssl and use_tls:
        raise refuse(name, "use either smtps:// or tls=true, not both.")
    user = unquote(parts.username or "")
    return {
        "EMAIL_BACKEND": "django.core.mail.backends.smtp.EmailBackend",
        "EMAIL_HOST": parts.hostname,
        "EMAIL_PORT": parts.port or (465 if use_ssl else 25),
        "EMAIL_HOST_USER": user,
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
        "EMAIL_USE_SSL": use_ssl,
        "EMAIL_USE_TLS": use_tls,
        "EMAIL_TIMEOUT": 10,
        "DEFAULT_FROM_EMAIL": options.get("from") or (user if "@" in user else sender),
    }


def _is_web_address(value: str) -> bool:
    try:
        parts = urlsplit(value)
        is_address = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        return False
    return bool(is_address) and not re.search(r"\s", value)


def _can_be_guessed(key: str) -> bool:
    return len(key) < 32 or len(set(key)) < 5


def _truth(name: str, value: str) -> bool:
    if value.lower() in {"1", "true", "yes", "on"}:
        return True
    if value.lower() in {"0", "false", "no", "off"}:
        return False
    raise refuse(name, f"use true or false, not {value!r}.")


def _content(name: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise refuse(name, f"{path} cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise refuse(name, f"{path} is not UTF-8 text.") from error


def _is_importable(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False
