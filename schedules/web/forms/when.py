"""The form of a schedule: its text becomes a trigger, and the options of a job get fields from their one description."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from functools import cache, cached_property
from importlib import resources
from typing import Any, ClassVar
from zoneinfo import available_timezones

from django import forms
from django.core.exceptions import ValidationError

from schedules import clock
from schedules.models import Job
from schedules.models.triggers import columns_of
from schedules.result import Err, Ok, sentence
from schedules.services.jobs.validation import default_of, with_given
from schedules.spec.job import ScheduleSpec, choices_of, shown_type
from schedules.spec.readers import read_zone
from schedules.tasks.forms.fields import Lines, Text, Whole
from schedules.web.forms import PageForm
from schedules.when import durations
from schedules.when.clauses import named_calendars, parse_plan
from schedules.when.phrase_writer import phrase_of
from schedules.when.phrases import PhraseError, parse_moment
from schedules.when.repeats import first_of_interval
from schedules.when.triggers import (
    TOO_LONG,
    CalendarInterval,
    Interval,
    Once,
    Trigger,
    TriggerError,
    load_zone,
)
from schedules.when.zone_names import zone_note
from schedules.when.zones import in_the_past

UNITS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400}
REQUIRED_MESSAGES = {
    "phrase": "Enter a schedule.",
    "every_count": "Enter a number.",
    "run_at": "Enter a date and time.",
}
EXAMPLES = (
    "every weekday at 8:30",
    "every 15 minutes",
    "every day at 18:00",
    "mondays at 9:00",
    "tomorrow at 9am",
)


@cache
def _city_zones() -> list[str]:
    """Return the zones named after a city; aliases such as US/Pacific are not suggested, but can be typed."""
    table = (resources.files("tzdata") / "zoneinfo" / "zone.tab").read_text(encoding="utf-8")
    names = {line.split("\t")[2] for line in table.splitlines() if line and not line.startswith("#")}
    return sorted(names & available_timezones())


class LocalMoment(forms.CharField):
    """A date and time, from the browser's date control or typed as a phrase."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(widget=forms.DateTimeInput(attrs={"type": "datetime-local"}), **kwargs)


class Zone(forms.CharField):
    """The name of a time zone."""

    def __init__(self, **kwargs: Any) -> None:
        widget = forms.TextInput(attrs={"list": "zones", "autocomplete": "off"})
        super().__init__(max_length=64, widget=widget, **kwargs)

    def clean(self, value: Any) -> str:
        text = str(super().clean(value))
        try:
            return read_zone(text, clock.now()) if text else ""
        except TriggerError as error:
            raise ValidationError(sentence(error.reason)) from error


class OptionsForm(PageForm):
    """A form with a field for each option; one that the class declares gets its words here, unless it has a hint."""

    spec: ClassVar[type[ScheduleSpec]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, option in self.spec.of_columns().items():
            made = field_of(name, option)
            field = self.fields.setdefault(name, made)
            field.label, field.help_text = made.label, field.help_text or made.help_text

    def clean(self) -> dict[str, Any]:
        """Replace what was typed by the values of the columns; what was left empty stays."""
        typed = {name: self.cleaned_data.get(name) for name in self.spec.of_columns()}
        given = {name: value for name, value in typed.items() if value not in (None, "", [])}
        columns, problems = self.spec.read_each(given, now=clock.now(), zone="UTC")
        for (name, *_), reason in problems:
            self.add_error(str(name), sentence(reason))
        self.cleaned_data |= columns
        return self.cleaned_data


def field_of(name: str, option: Any) -> forms.Field:
    """Return the form field for an option of a job."""
    kind = shown_type(option)
    words: dict[str, Any] = {"required": False, "label": option.title, "help_text": option.description}
    if choices := choices_of(option):
        refusal = {"invalid_choice": f"Choose one of: {', '.join(choices)}."}
        column: Any = Job._meta.get_field(name)
        return forms.ChoiceField(
            choices=column.choices, initial=column.get_default(), error_messages=refusal, **words
        )
    if kind is bool:
        return forms.BooleanField(**words)
    if kind is int:
        limits = {
            key: getattr(each, key) for each in option.metadata for key in ("ge", "le") if hasattr(each, key)
        }
        return Whole(min_value=limits.get("ge"), max_value=limits.get("le"), **words)
    if kind == list[str]:
        return Lines(**words | {"help_text": f"{option.description} One for each line."})
    return Text(**words)


class WhenForm(OptionsForm):
    """The fields of a schedule alone, which are all that the live preview needs."""

    spec: ClassVar[type[ScheduleSpec]] = ScheduleSpec

    when = forms.ChoiceField(
        choices=[("phrase", "Words or cron"), ("every", "Every"), ("once", "Once")],
        initial="phrase",
        required=False,
    )
    phrase = forms.CharField(
        label="Schedule",
        required=False,
        max_length=200,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text="Plain English, a cron expression, or a date and time",
    )
    every_count = Whole(label="Every", required=False, min_value=1, max_value=200_000_000, initial=15)
    every_unit = forms.ChoiceField(
        label="Unit", choices=[(unit, unit) for unit in UNITS], initial="minutes", required=False
    )
    every_start = LocalMoment(label="Start", required=False, help_text="Empty: at the next round time")
    run_at = LocalMoment(label="Date and time", required=False, help_text="In the time zone below")
    timezone = Zone(error_messages={"required": "Enter a time zone."})
    ends_at = LocalMoment(required=False, help_text="No run after this time.")
    calendars = forms.MultipleChoiceField(required=False, widget=forms.CheckboxSelectMultiple)

    trigger: Trigger | None = None
    has_start = False
    """Whether the person chose when an interval starts; otherwise it starts at the next round time."""
    skipped_days: tuple[date, ...] = ()
    """The days that a phrase excludes: "except 24 december"."""
    calendars_of_phrase: Sequence[str] = ()
    """The calendars that a phrase names: "except public holidays in Bavaria"."""
    clauses: Mapping[str, Any] = {}
    """The other columns that a phrase sets: "until june within 20 minutes"."""

    def __init__(self, *args: Any, calendars: Callable[[], Mapping[str, str]] = dict, **kwargs: Any) -> None:
        """Offer these calendars, a mapping of names to descriptions, which is read only if it is needed."""
        super().__init__(*args, **kwargs)
        self.read_calendars = calendars
        self.fields["calendars"].choices = self._calendar_choices  # type: ignore[attr-defined]
        # Each is required on its own tab, so none is labelled as optional.
        for name in ("phrase", "every_count", "run_at"):
            self.fields[name].widget.is_required = True

    @cached_property
    def offered(self) -> Mapping[str, str]:
        return self.read_calendars()

    def _calendar_choices(self) -> list[tuple[str, str]]:
        return [(name, name if text == name else f"{name}: {text}") for name, text in self.offered.items()]

    @staticmethod
    def zones() -> list[str]:
        return [*_city_zones(), "UTC"]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if zone := cleaned.get("timezone"):
            field = self.when_field()
            try:
                self.trigger = self._read_trigger(zone)
            except PhraseError as error:
                self.add_error(field, sentence(str(error).removeprefix("cron: ")))
            except TriggerError as error:
                self.add_error(field, sentence(error.reason))
            self._take_clauses()
        return cleaned

    def when_field(self) -> str:
        """Return the main field of the chosen tab, which shows the errors of the schedule."""
        return {"every": "every_count", "once": "run_at"}.get(self.cleaned_data.get("when", ""), "phrase")

    def _read_trigger(self, zone: str) -> Trigger | None:
        field, now = self.when_field(), clock.now()
        if field in self.errors:
            return None
        value = self.cleaned_data.get(field)
        if not value:
            self.add_error(field, REQUIRED_MESSAGES[field])
            return None
        if field == "run_at":
            return Once(parse_moment(value, now=now, timezone=zone), zone)
        if field == "phrase":
            plan = parse_plan(value, now=now, timezone=zone)
            self.skipped_days = plan.skipped_days
            self.clauses = {name: value for name, value in plan.clauses.items() if name != "calendars"}
            if plan.calendars:
                self.calendars_of_phrase = named_calendars(plan.calendars, self.offered)
            self.has_start = " starting " in value.lower()
            return plan.trigger
        return self._read_interval(value * UNITS[self.cleaned_data.get("every_unit") or "minutes"], now, zone)

    def _read_interval(self, seconds: int, now: datetime, zone: str) -> Interval | None:
        """Return the interval of the tab Every, which runs at the same times as the equivalent phrase."""
        try:
            if text := self.cleaned_data.get("every_start"):
                self.has_start = True
                return Interval(seconds, parse_moment(text, now=now, timezone=zone))
            step = timedelta(seconds=Interval(seconds, now).seconds)
            return Interval(seconds, first_of_interval(step, now, zone))
        except PhraseError as error:
            self.add_error("every_start", sentence(str(error)))
            return None
        except OverflowError as error:
            raise TriggerError("every", TOO_LONG) from error

    def _take_clauses(self) -> None:
        """Add what the phrase says; one that runs once has no end, and the form hides these fields."""
        cleaned = self.cleaned_data
        if cleaned.get("when") == "once" and not self.shows_end_of_once():
            for name in ("ends_at", "max_runs"):
                cleaned[name] = None
                self._errors.pop(name, None)  # type: ignore[attr-defined]
        entered = {name: cleaned.get(name) for name in self.clauses}
        match with_given(self.clauses, entered, {name: str(self.fields[name].label) for name in entered}):
            case Ok(merged):
                cleaned |= merged
            case Err(errors=errors):
                for name, reasons in errors.items():
                    self.add_error(name, reasons)

    def more_options(self) -> list[forms.BoundField]:
        """Return the fields beside those that have a place of their own."""
        placed = ("timezone", "ends_at", "max_runs", "calendars", "on_closed")
        return [self[name] for name in ScheduleSpec.of_columns() if name not in placed]

    def has_options(self) -> bool:
        return any(field.value() for field in (self["ends_at"], self["max_runs"], *self.more_options()))

    def shows_end_of_once(self) -> bool:
        """Return whether the form edits a job that runs once but has an end, which only agents can set."""
        return self.initial.get("when") == "once" and any(map(self.initial.get, ("ends_at", "max_runs")))

    def zone_note(self) -> str:
        """Return a note that names the time zone, if it was typed in another form."""
        zone = self.cleaned_data.get("timezone") if self.is_bound else None
        return zone_note(str(self["timezone"].value() or ""), zone) if zone else ""

    def past_problem(self, now: datetime) -> str:
        """Return an error if the schedule is a single moment in the past, else an empty text."""
        is_past = isinstance(self.trigger, Once) and self.trigger.run_at <= now
        return in_the_past(now, self.cleaned_data["timezone"]) if is_past else ""

    def moments_ahead(self, now: datetime) -> list[tuple[str, str]]:
        """Suggest common times as (label, value of the date control); none without a valid time zone."""
        try:
            zone = load_zone(self.fields["timezone"].clean(self["timezone"].value()))
        except ValidationError:
            return []
        local, hour_later = (
            moment.astimezone(zone).replace(second=0, microsecond=0, tzinfo=None)
            for moment in (now, now + timedelta(hours=1))
        )
        morning = local.replace(hour=9, minute=0)
        moments = {
            "In 1 hour": hour_later,
            "Tonight 20:00": local.replace(hour=20, minute=0),
            "Tomorrow 9:00": morning + timedelta(days=1),
            "Monday 9:00": morning + timedelta(days=7 - local.weekday()),
        }
        return [(label, f"{moment:%Y-%m-%dT%H:%M}") for label, moment in moments.items() if moment > local]

    def trigger_columns(self) -> dict[str, Any]:
        """Return the columns of the schedule; those that the trigger does not use are empty."""
        assert self.trigger is not None
        entered = {
            name: self.cleaned_data.get(name) or default_of(name) for name in ScheduleSpec.of_columns()
        }
        columns = columns_of(self.trigger) | entered
        if isinstance(self.trigger, Interval):
            columns["anchor_at"] = self.trigger.start
        names = [*(self.cleaned_data.get("calendars") or ()), *self.calendars_of_phrase]
        calendars = [] if isinstance(self.trigger, Once) else list(dict.fromkeys(names))
        return columns | {
            "calendars": calendars,
            "on_closed": (calendars and self.cleaned_data.get("on_closed")) or Job.OnClosed.SKIP,
        }


def when_of(job: Job) -> dict[str, Any]:
    """Return the form values of a stored schedule."""
    zone = load_zone(job.timezone)
    stored = {name: getattr(job, name) for name in ScheduleSpec.of_columns()}
    values: dict[str, Any] = {"timezone": job.timezone, "max_runs": job.max_runs}
    values |= {
        name: durations.typed(span) for name, span in stored.items() if isinstance(span, timedelta) and span
    }
    if job.calendars:
        values |= {"calendars": job.calendars, "on_closed": job.on_closed}
    if job.ends_at:
        values["ends_at"] = _control_text(job.ends_at.astimezone(zone))
    if job.trigger_type == Job.TriggerType.ONCE and job.run_at:
        return values | {"when": "once", "run_at": _control_text(job.run_at.astimezone(zone))}
    if job.calendar_unit and isinstance(trigger := job.undelayed_trigger, CalendarInterval):
        return values | {"when": "phrase", "phrase": phrase_of(trigger)}
    if job.trigger_type == Job.TriggerType.INTERVAL and job.every:
        seconds = int(job.every.total_seconds())
        unit = next(unit for unit in reversed(UNITS) if seconds % UNITS[unit] == 0)
        start = {"every_start": _control_text(job.anchor_at.astimezone(zone))} if job.anchor_at else {}
        return values | start | {"when": "every", "every_count": seconds // UNITS[unit], "every_unit": unit}
    return values | {"when": "phrase", "phrase": phrase_of(job.undelayed_trigger)}


def _control_text(local: datetime) -> str:
    """Format a local time for the date control, with seconds only if there are any."""
    is_end_of_day = local.time() == time.max
    return f"{local:%Y-%m-%dT%H:%M:%S}" if local.second and not is_end_of_day else f"{local:%Y-%m-%dT%H:%M}"
