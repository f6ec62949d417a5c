"""Examine an installation: one finding per check, with a remedy if something is wrong."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    """Works, but may stop working, or does not work for everybody."""
    PROBLEM = "problem"
    """Something does not work."""


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    check: str
    level: Level
    message: str
    remedy: str = ""


def ok(check: str, message: str) -> Finding:
    return Finding(check, Level.OK, message)


def warning(check: str, message: str, remedy: str) -> Finding:
    return Finding(check, Level.WARNING, message, remedy)


def problem(check: str, message: str, remedy: str) -> Finding:
    return Finding(check, Level.PROBLEM, message, remedy)
