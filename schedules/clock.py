"""What time it is: the one place that asks, so that a test can answer."""

from datetime import datetime

from django.utils import timezone


def now() -> datetime:
    return timezone.now()
