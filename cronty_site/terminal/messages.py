"""Why a service refused, in the words of the terminal."""

from schedules.result import Err
from schedules.services.refusals import REFUSALS as _MESSAGES


def message_of(error: Err) -> str:
    """Return why a service refused, as a text for the terminal."""
    # Here, arguments have no field of their own.
    return _MESSAGES[error.code].format(error).removeprefix("kwargs: ")
