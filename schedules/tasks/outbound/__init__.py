"""How does anything leave for another host? Through `send`, which guards addresses, time and size."""

from schedules.tasks.outbound.errors import OutboundError, Refused
from schedules.tasks.outbound.requests import LONGEST_URL, Reply, problem_with_url, send

__all__ = ["LONGEST_URL", "OutboundError", "Refused", "Reply", "problem_with_url", "send"]
