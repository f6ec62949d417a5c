"""App that adds the campaign to the product: its tasks, its migration and a clock that can be shifted."""

import os

from django.apps import AppConfig

from schedules import clock
from verification.faults.shift import ShiftedClock

SHIFT_FILE = "CRONTY_FAULTS_CLOCK"


class FaultsConfig(AppConfig):
    name = "verification.faults"
    label = "faults"

    def ready(self) -> None:
        if path := os.environ.get(SHIFT_FILE):
            clock.now = ShiftedClock(path, clock.now).now  # type: ignore[assignment]
