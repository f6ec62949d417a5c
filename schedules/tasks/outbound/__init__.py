"""HTTP requests to other hosts; all of them go through `send`, which limits addresses, time and size."""

from schedules.tasks.outbound.errors import OutboundError, Refused
from schedules.tasks.outbound.requests import LONGEST_URL, Reply, problem_with_url, send

__all__ = ["LONGEST_URL", "OutboundError", "Refused", "Reply", "problem_with_url", "send"]
