"""Messages for agents that explain why a service refused, as the contract requires."""

from collections.abc import Mapping

from schedules.result import Code, Err

_MESSAGES: Mapping[Code, str] = {
    Code.JOB_NOT_PAUSED: "Job already {0.state}: {0.subject}",
    Code.LAST_CALL_NOT_UNDOABLE: (
        "Your last call cannot be undone: {0.state} ({0.subject}). To undo an earlier one, call undo_change with its"
        " number as change: list_changes shows them."
    ),
    Code.STARTED_RUN_NOT_UNDOABLE: (
        "Your last call started a run of {0.subject!r}, and a run cannot be undone. To undo an earlier call, call"
        " undo_change with its number as change: list_changes shows them."
    ),
    Code.PROMPT_NOT_FOUND: "Prompt not found: {0.subject}. Take the execution_id from claim_prompts.",
}


def message_of(error: Err) -> str:
    """Explain to an agent why a service refused."""
    return _MESSAGES.get(error.code, error.code.text).format(error)
