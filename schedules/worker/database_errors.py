"""Database errors: tell outages, which pass by themselves, from mistakes, and summarize an error in one line."""

from django.db import Error, InterfaceError, InternalError, OperationalError

from schedules.result import Code

TRY_AGAIN = Code.DATABASE_UNAVAILABLE.text
TRY_AGAIN_SECONDS = 5
# PostgreSQL closed the connection because its transaction took too long; Django reports that as an InternalError.
_TRANSACTION_ENDED = ("25P03", "25P04")


def is_outage(error: BaseException | None) -> bool:
    """Return whether the database was unreachable, locked or full, or closed the connection, so that a retry may succeed.

    SQLite also reports mistakes in a statement, such as a missing table, as an OperationalError.
    """
    if isinstance(error, InternalError):
        return getattr(error.__cause__, "sqlstate", None) in _TRANSACTION_ENDED
    if not isinstance(error, (OperationalError, InterfaceError)):
        return False
    return getattr(error.__cause__, "sqlite_errorname", "") != "SQLITE_ERROR"


def outage_in(error: BaseException | None) -> Error | None:
    """Return the outage that led to this error, or None."""
    visited: list[BaseException] = []
    while error and error not in visited and len(visited) < 10:
        if isinstance(error, Error) and is_outage(error):
            return error
        visited.append(error)
        inner = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else None
        error = inner or error.__cause__ or error.__context__
    return None


def reason_of(error: Error) -> str:
    """Return the driver's message in one line; it may name hosts, so it is for the log."""
    return " ".join(str(error).split()) or type(error).__name__
