"""How a person types a management command on this host."""

import shlex
import shutil
import sys
from pathlib import Path

from django.conf import settings

# `cronty` has these as subcommands; all others run as `cronty manage …`.
_SUBCOMMANDS = ("backup", "doctor", "up")


def how_to_run(command: str) -> str:
    """Return `cronty …` for an installed package, and `python manage.py …` for a checkout or another project."""
    if not is_package():
        return f"{_python()} manage.py {command}"
    return f"cronty {command}" if command.split()[0] in _SUBCOMMANDS else f"cronty manage {command}"


def is_package() -> bool:
    """Return whether Cronty is an installed package, which has the command `cronty` and no manage.py."""
    return getattr(settings, "CRONTY_MANAGE", None) == ["-m", "cronty_site"]


def _python() -> str:
    """Return the Python that runs a checkout, as typed in its folder; `python` may be missing or another one."""
    manage = getattr(settings, "CRONTY_MANAGE", None)
    if not manage or shutil.which("python") == sys.executable:
        return "python"
    folder, running = Path(manage[0]).parent, Path(sys.executable)
    return shlex.quote(str(running.relative_to(folder) if running.is_relative_to(folder) else running))
