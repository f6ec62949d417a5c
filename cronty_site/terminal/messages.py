"""The messages of the terminal for errors of services."""

from schedules.result import Err


def message_of(error: Err) -> str:
    """Return the message for an error of a service."""
    # A terminal has no form field for arguments.
    return error.text.removeprefix("kwargs: ")
