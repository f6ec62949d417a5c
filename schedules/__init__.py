"""Cronty's Django app: jobs, their schedules and their runs."""

__version__ = "0.1.0"
