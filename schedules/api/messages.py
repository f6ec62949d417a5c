"""Messages of the HTTP API that explain why a service refused."""

from collections.abc import Mapping

from schedules.result import Code, Err, sentence

_MESSAGES: Mapping[Code, str] = {
    Code.LAST_CALL_NOT_UNDOABLE: (
        "Your last call cannot be undone: {0.state} ({0.subject}). To undo an earlier one, send its number as change:"
        " GET /events shows them."
    ),
    Code.STARTED_RUN_NOT_UNDOABLE: (
        "Your last call started a run of {0.subject}, and a run cannot be undone. To undo an earlier call, send its"
        " number as change: GET /events shows them."
    ),
    Code.PING_KEY_CHANGED: "The ping key was already changed.",
    Code.TOKENS_HIDDEN_FROM_AGENTS: (
        "Agents cannot create tokens, or revoke those of others: use a token of the type Program."
    ),
    Code.SECRETS_HIDDEN_FROM_AGENTS: "Agents cannot see or change secrets: use a token of the type Program.",
    Code.ALERTS_BY_PEOPLE: "Agents cannot snooze alerts: use a token of the type Program.",
    Code.CHANNELS_BY_PEOPLE: "Agents cannot see or change channels: use a token of the type Program.",
}


def message_of(error: Err) -> str:
    """Explain to a caller of the API why a service refused."""
    return sentence(_MESSAGES.get(error.code, error.code.text).format(error))
