"""The form that adds or changes a calendar."""

from django import forms

from schedules.models import Calendar
from schedules.services.people.calendars import CalendarSpec
from schedules.services.people.holidays import NAME_LENGTH
from schedules.web.forms import PageForm
from schedules.when.calendar_rules import DEFAULT_CATEGORIES

KINDS = (Calendar.Kind.HOLIDAYS, Calendar.Kind.DATES, Calendar.Kind.HOURS, Calendar.Kind.ICS)


class CalendarForm(PageForm):
    name = forms.CharField(
        max_length=NAME_LENGTH,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text="Like DE-BY or office hours. Jobs refer to it by this name.",
    )
    kind = forms.ChoiceField(choices=[(kind.value, kind.label) for kind in KINDS])
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
