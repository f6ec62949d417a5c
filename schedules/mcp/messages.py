"""Messages for agents that explain why a service refused, as the contract requires."""

from collections.abc import Mapping

from schedules.result import Code, Err
from schedules.services.refusals import REFUSALS

_MESSAGES: Mapping[Code, str] = {
    **REFUSALS,
    Code.JOB_NOT_PAUSED: "Job already {0.state}: {0.subject}",
    Code.EVENT_SUBSCRIPTION_OFF: "A person has switched off {0.subject}, and only a person can switch it on again.",
    Code.PROMPT_NOT_FOUND: "Prompt not found: {0.subject}. Take the execution_id from claim_prompts.",
}


def message_of(error: Err) -> str:
    """Explain to an agent why a service refused."""
    return _MESSAGES[error.code].format(error)
