"""Whether anybody is alerted when something goes wrong, and how to mend it."""

from django.contrib.auth import get_user_model
from django.db.models import Q

from schedules.models import Job, Profile
from schedules.models.people import is_active

MEND = "cronty preferences --failure-topic TOPIC"
MAX_NAMED = 5


def why_unalerted(profile: Profile) -> str:
    """Return that a person is not alerted, or an empty text."""
    return "" if profile.alert_place else "You are not alerted when a job fails: no topic or channel is set."


def people_unalerted() -> list[str]:
    """Return the names of people whose jobs nobody is alerted of."""
    nowhere = Q(owner__cronty_profile__failure_topic="", owner__cronty_profile__alert_channel="")
    jobs = Job.objects.kept().without_notices().filter(is_active("owner__"), status=Job.Status.PENDING)
    jobs = jobs.filter(Q(owner__cronty_profile=None) | nowhere, alerts="")
    name = f"owner__{get_user_model().USERNAME_FIELD}"
    return list(jobs.order_by(name).values_list(name, flat=True).distinct()[:MAX_NAMED])
