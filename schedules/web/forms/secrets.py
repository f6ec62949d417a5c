"""The form that adds or replaces a secret."""

from django import forms

from schedules.secrets import masking
from schedules.services.people.stored_secrets import LONGEST_SECRET
from schedules.web.forms import PageForm


class _Names(forms.CharField):
    """Names separated by commas or spaces."""

    def clean(self, value: str) -> list[str]:
        return super().clean(value).replace(",", " ").split()  # type: ignore[no-any-return]


class _NeverShown(forms.Textarea):
    """A text area that is always rendered empty, because a page must not contain a secret."""

    def format_value(self, value: object) -> str:
        return ""


class SecretForm(PageForm):
    name = forms.CharField(
        max_length=64,
        widget=forms.TextInput(attrs={"autocomplete": "off", "class": "mono", "spellcheck": "false"}),
        help_text="Like GITHUB_TOKEN. Jobs refer to it as ${secret:GITHUB_TOKEN}.",
    )
    value = forms.CharField(
        min_length=masking.SHORTEST_SECRET,
        max_length=LONGEST_SECRET,
        strip=False,
        # Several lines, for keys and certificates.
        widget=_NeverShown(attrs={"rows": 3, "autocomplete": "off", "class": "mono", "spellcheck": "false"}),
        help_text="It is stored encrypted, and nobody can read it here again. Enter it again to change where it may go.",
        error_messages={"required": "Enter the value. To change where it may go, enter it again."},
    )
    hosts = _Names(
        label="Allowed hosts",
        required=False,
        help_text="For webhooks: api.github.com; add a port if it isn't 443, e.g. nas.local:8080.",
    )
    commands = _Names(label="Allowed commands", required=False, help_text="For commands: backup.")
    expires_at = forms.CharField(
        label="Expires",
        required=False,
        max_length=200,
        widget=forms.TextInput(attrs={"autocomplete": "off", "placeholder": "2030-03-31"}),
        help_text="When the other side stops accepting it. You are alerted a week before.",
    )
    of_installation = forms.BooleanField(
        label="Installation secret",
        required=False,
        help_text="Only usable in commands.toml.",
    )

    def __init__(self, *args: object, is_superuser: bool, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        if not is_superuser:
            del self.fields["of_installation"]

    def clean_value(self) -> str:
        # Browsers send line breaks as CRLF, which programs reject in a key.
        return str(self.cleaned_data["value"]).replace("\r\n", "\n")
