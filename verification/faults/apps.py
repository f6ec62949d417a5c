"""App that adds the campaign to the product: tasks, a migration, a clock that can be shifted, and names of hosts."""

import os
import socket

from django.apps import AppConfig

from schedules import clock
from schedules.tasks.outbound import requests
from verification.faults.shift import ShiftedClock

SHIFT_FILE = "CRONTY_FAULTS_CLOCK"
HOST = "CRONTY_FAULTS_HOST"


class FaultsConfig(AppConfig):
    name = "verification.faults"
    label = "faults"

    def ready(self) -> None:
        if path := os.environ.get(SHIFT_FILE):
            clock.now = ShiftedClock(path, clock.now).now  # type: ignore[assignment]
        if host := os.environ.get(HOST):
            # All parts run on one machine. The sink reads the name from each delivery.
            socket.gethostname = lambda: host
            requests.USER_AGENT = host
