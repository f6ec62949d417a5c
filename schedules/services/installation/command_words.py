"""The words for a management command, as a person types it where Cronty runs now."""

from django.conf import settings

# `cronty` has these under the same names; it runs all others as `cronty manage …`.
_SUBCOMMANDS = ("backup", "doctor", "up")


def how_to_run(command: str) -> str:
    """Return `cronty …` for an installed package, and `python manage.py …` for a checkout or another project."""
    if not is_package():
        return f"python manage.py {command}"
    return f"cronty {command}" if command.split()[0] in _SUBCOMMANDS else f"cronty manage {command}"


def is_package() -> bool:
    """Return whether Cronty is an installed package, which has the command `cronty` and no manage.py."""
    return getattr(settings, "CRONTY_MANAGE", None) == ["-m", "cronty_site"]
