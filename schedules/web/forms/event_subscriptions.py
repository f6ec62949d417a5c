"""The form of a subscription to events."""

from typing import Any

from django import forms

from schedules import limits
from schedules.models import EventSubscription, EventType
from schedules.services.people.event_subscriptions import SubscriptionSpec
from schedules.tasks.outbound import LONGEST_URL
from schedules.web.forms import PageForm


class EventSubscriptionForm(PageForm):
    name = forms.CharField(
        max_length=EventSubscription.NAME_LENGTH, widget=forms.TextInput(attrs={"autocomplete": "off"})
    )
    url = forms.CharField(
        label="Address",
        max_length=LONGEST_URL,
        widget=forms.URLInput(attrs={"autocomplete": "off", "placeholder": "https://", "inputmode": "url"}),
        help_text="An https address. Each event is one signed POST request.",
    )
    types = forms.MultipleChoiceField(
        label="Events", choices=EventType.choices, widget=forms.CheckboxSelectMultiple
    )
    tag = forms.CharField(label="Only jobs with the tag", max_length=limits.TAG_LENGTH, required=False)
    job = forms.CharField(
        label="Only the job",
        max_length=limits.NAME_LENGTH,
        required=False,
        help_text="Its name or id. Leave both empty for all your jobs.",
    )

    def spec(self) -> SubscriptionSpec:
        return SubscriptionSpec(**self.cleaned_data)

    @staticmethod
    def values_of(row: EventSubscription) -> dict[str, Any]:
        """Return the form values of a stored subscription."""
        job = row.only_job.public_id if row.only_job else ""
        return {"name": row.name, "url": row.url, "types": row.types, "tag": row.tag, "job": job}
