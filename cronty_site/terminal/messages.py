"""The messages of the terminal for errors of services."""

from schedules.result import Err
from schedules.services.refusals import REFUSALS as _MESSAGES


def message_of(error: Err) -> str:
    """Return the message for an error of a service."""
    # A terminal has no form field for arguments.
    return _MESSAGES[error.code].format(error).removeprefix("kwargs: ")
