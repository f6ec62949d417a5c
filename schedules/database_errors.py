"""Database errors: whether an error passes by itself, and its reason in one line."""

from django.db import Error, InterfaceError, OperationalError


def is_outage(error: BaseException | None) -> bool:
    """Return whether the database was away, locked or full, so that the same step may succeed later.

    SQLite also reports mistakes in a statement, such as a missing table, as an OperationalError.
    """
    if not isinstance(error, (OperationalError, InterfaceError)):
        return False
    return getattr(error.__cause__, "sqlite_errorname", "") != "SQLITE_ERROR"


def reason_of(error: Error) -> str:
    """Return the driver's message in one line."""
    return " ".join(str(error).split()) or type(error).__name__
