"""The forms of calendars, secrets and channels."""

from typing import Any

from django import forms

from schedules.channels.catalog import KINDS
from schedules.channels.kinds import LONGEST_VALUE, NOTHING_CHOSEN, ChannelKind, Field
from schedules.models import Calendar
from schedules.secrets import masking
from schedules.services.people.calendars import CalendarSpec, ShownCalendar
from schedules.services.people.holidays import NAME_LENGTH
from schedules.services.people.stored_secrets import LONGEST_SECRET, ListedSecret
from schedules.web.forms import PageForm
from schedules.when.calendar_rules import DEFAULT_CATEGORIES

CALENDAR_KINDS = (Calendar.Kind.HOLIDAYS, Calendar.Kind.DATES, Calendar.Kind.HOURS, Calendar.Kind.ICS)


class CalendarForm(PageForm):
    name = forms.CharField(
        max_length=NAME_LENGTH,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text="Like DE-BY or office hours. Jobs refer to it by this name.",
    )
    kind = forms.ChoiceField(choices=[(kind.value, kind.label) for kind in CALENDAR_KINDS])
    place = forms.CharField(
        label="Country",
        required=False,
        max_length=50,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text="For public holidays: DE, US, or a part of a country like DE-BY",
    )
    categories = forms.CharField(
        required=False,
        max_length=200,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text="Empty: public. Some countries have more, like public, catholic in DE",
    )
    lines = forms.CharField(
        label="Dates or hours",
        required=False,
        max_length=40_000,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "class": "mono"}),
        help_text="One per line. Dates: 2026-12-24, 2026-12-24..2027-01-02, or 12-24 for every year, each with a title if "
        "you like. Hours: mon-fri 09:00-17:00, sat,sun, or daily 01:00-05:00",
    )
    address = forms.CharField(
        required=False,
        max_length=2048,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "inputmode": "url"}),
        help_text="Of an ICS calendar: calendar programs call it iCal, ICS or webcal. It is stored encrypted, not shown "
        "again, and read every 15 minutes",
    )
    file = forms.FileField(
        label="Or a file",
        required=False,
        widget=forms.FileInput(attrs={"accept": ".ics,text/calendar"}),
        help_text="It stays as it is until you choose another one",
    )
    closes = forms.ChoiceField(
        label="Runs are allowed",
        choices=[("yes", "outside of these times"), ("", "only at these times")],
        required=False,
    )
    timezone = forms.CharField(
        label="Time zone",
        required=False,
        max_length=64,
        widget=forms.TextInput(attrs={"list": "zones", "autocomplete": "off"}),
        help_text="Empty: the zone of each job",
    )

    @staticmethod
    def values_of(row: ShownCalendar) -> dict[str, Any]:
        """Return the form values of a stored calendar."""
        return {
            **{name: getattr(row, name) for name in ("name", "kind", "place", "timezone")},
            "categories": ", ".join(row.categories),
            "lines": "\n".join(row.lines),
            "closes": "yes" if row.closes else "",
        }

    def spec(self) -> CalendarSpec:
        """Return the calendar described by the form."""
        cleaned = self.cleaned_data
        file = cleaned["file"]
        return CalendarSpec(
            cleaned["name"],
            cleaned["kind"],
            cleaned["place"],
            cleaned["categories"].replace(",", " ").split() or DEFAULT_CATEGORIES,
            cleaned["lines"].splitlines(),
            closes=cleaned["closes"] == "yes",
            timezone=cleaned["timezone"],
            address=cleaned["address"],
            file_name=file.name if file else "",
            file_text=file.read().decode("utf-8", "replace") if file else "",
        )


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

    @staticmethod
    def values_of(row: ListedSecret) -> dict[str, Any]:
        """Return the form values of a stored secret, except its value."""
        return {
            "name": row.name,
            "hosts": ", ".join(row.hosts),
            "commands": ", ".join(row.commands),
            "of_installation": row.of_installation,
        }

    def clean_value(self) -> str:
        # Browsers send line breaks as CRLF, which programs reject in a key.
        return str(self.cleaned_data["value"]).replace("\r\n", "\n")


class ChannelForm(PageForm):
    """The name of a channel and the fields of its kind; input in secret fields is never shown again."""

    name = forms.CharField(
        max_length=40,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text="Like phone or team. Jobs and agents use this name.",
        error_messages={"required": "Enter a name."},
    )

    def __init__(self, data: Any = None, *, kind: ChannelKind, initial: dict[str, str] | None = None) -> None:
        super().__init__(data, initial=initial)
        self.kind = kind
        for field in kind.fields:
            if not field.is_generated:
                self.fields[field.name] = _form_field(field)
            if field.choices and initial:
                self.initial[field.name] = initial.get(field.name, "").split()

    def values(self) -> dict[str, str]:
        values = {field.name: self.cleaned_data.get(field.name, "") for field in self.kind.fields}
        return {
            name: value if isinstance(value, str) else " ".join(value) or NOTHING_CHOSEN
            for name, value in values.items()
        }


def kind_named(name: str) -> ChannelKind:
    """Return the kind with this name, or the first kind if there is none."""
    return KINDS.get(name) or next(iter(KINDS.values()))


def _form_field(field: Field) -> forms.Field:
    if field.is_set_by_browser:
        return forms.CharField(
            widget=forms.HiddenInput(attrs={"autocomplete": "off"}),
            error_messages={"required": "Tap the button, and allow notifications."},
            max_length=LONGEST_VALUE,
        )
    if field.choices:
        return forms.MultipleChoiceField(
            label=field.label,
            help_text=field.help,
            choices=field.choices,
            initial=field.default.split(),
            required=False,
            widget=forms.CheckboxSelectMultiple,
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
