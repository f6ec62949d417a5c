"""What is stored: jobs and their ledger, the clusters, the people with their agents, and the trail of changes."""

from schedules.models.executions import Execution
from schedules.models.jobs import LATE_AFTER, Job
from schedules.models.people import Profile, Token
from schedules.models.trail import Event
from schedules.models.workers import FRESH_FOR, Worker

__all__ = ["FRESH_FOR", "LATE_AFTER", "Event", "Execution", "Job", "Profile", "Token", "Worker"]
