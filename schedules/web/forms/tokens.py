"""The form of a token, and the choices that it shares with the consent page: tools, confirmation and lifetime."""

from datetime import timedelta
from typing import Any

from django import forms

from schedules.models import Token
from schedules.web.forms import PageForm

# The smallest set first: models choose better among few tools, and their descriptions cost fewer tokens.
TOOLS = {
    "core": "Everyday tools",
    "": "All tools",
    "notifications": "Reminders and notifications only",
    "prompts": "Scheduled prompts only",
    "jobs": "Jobs only",
}
CONFIRM = {
    "never": "Never",
    "prompts": "Before a prompt or a command runs",
    "always": "Before any of its jobs runs",
}
# Keys are days.
LIFETIMES = {"30": "30 days", "90": "90 days", "365": "1 year", "": "No expiry"}


class TokenForm(PageForm):
    name = forms.CharField(
        label="Name", max_length=100, help_text='Appears in the activity log, e.g. "laptop".'
    )
    scopes = forms.ChoiceField(
        label="Access", choices=[("read,write", "Read and write"), ("read", "Read only")], required=False
    )
    tools = forms.ChoiceField(
        label="Tools", choices=list(TOOLS.items()), initial=next(iter(TOOLS)), required=False
    )
    kind = forms.ChoiceField(
        label="Type",
        choices=Token.Kind.choices,
        required=False,
        help_text="A program may do through the HTTP API what you may, with commands and secrets; an agent may not.",
    )
    confirm = forms.ChoiceField(
        label="Ask me to confirm its jobs",
        choices=list(CONFIRM.items()),
        required=False,
        help_text="What it schedules or changes then waits, paused, until you confirm it.",
    )
    expires = forms.ChoiceField(
        label="Expires", choices=list(LIFETIMES.items()), initial="365", required=False
    )

    def options(self) -> dict[str, Any]:
        """Return the arguments for `services.issue_token`."""
        cleaned = self.cleaned_data
        return {
            "name": cleaned["name"],
            "scopes": (cleaned["scopes"] or "read,write").split(","),
            "families": [cleaned["tools"]] if cleaned["tools"] else [],
            "confirm": cleaned["confirm"] or Token.Confirm.NEVER,
            "kind": cleaned["kind"] or Token.Kind.CONVERSATION,
            "expires_in": timedelta(days=int(cleaned["expires"])) if cleaned["expires"] else None,
        }
