"""The current time, read in one place."""

from datetime import datetime

from django.utils import timezone


def now() -> datetime:
    return timezone.now()
