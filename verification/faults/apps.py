"""How the campaign gets into the product: its tasks, its migration, and its hand on the clock."""

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
            clock.now = ShiftedClock(path).now  # type: ignore[assignment]
