"""The form that adds or replaces a channel, with the fields of its kind."""

from typing import Any

from django import forms

from schedules.channels.catalog import KINDS
from schedules.channels.kinds import LONGEST_VALUE, Field, Kind
from schedules.web.forms import PageForm


class ChannelForm(PageForm):
    """The name of a channel and the fields of its kind; input in secret fields is never shown again."""

    name = forms.CharField(
        max_length=40,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text="Like phone or team. Jobs and agents use this name.",
        error_messages={"required": "Enter a name."},
    )

    def __init__(self, data: Any = None, *, kind: Kind, initial: dict[str, str] | None = None) -> None:
        super().__init__(data, initial=initial)
        self.kind = kind
        for field in kind.fields:
            self.fields[field.name] = _form_field(field)

    def values(self) -> dict[str, str]:
        return {field.name: self.cleaned_data.get(field.name, "") for field in self.kind.fields}


def kind_named(name: str) -> Kind:
    """Return the kind with this name, or the first kind if there is none."""
    return KINDS.get(name) or next(iter(KINDS.values()))


def _form_field(field: Field) -> forms.Field:
    if field.is_set_by_browser:
        return forms.CharField(
            widget=forms.HiddenInput(attrs={"autocomplete": "off"}),
            error_messages={"required": "Tap the button, and allow notifications."},
            max_length=LONGEST_VALUE,
        )
    attributes = {"autocomplete": "off", "spellcheck": "false", "class": "mono"}
    widget = forms.PasswordInput if field.is_secret else forms.TextInput
    return forms.CharField(
        label=field.label,
        help_text=field.help,
        required=field.is_required,
        error_messages={"required": f"Fill in {field.label.lower()}."},
        max_length=LONGEST_VALUE,
        initial=field.default,
        widget=widget(attrs={**attributes, **({"autocomplete": "new-password"} if field.is_secret else {})}),
    )
