"""The tables: jobs, runs and their output, questions, clusters, starts of machines, profiles, tokens, secrets, channels, sessions, events, the installation."""

from schedules.models.channels import Channel
from schedules.models.clusters import FRESH_FOR, Cluster, MachineStart
from schedules.models.events import Event
from schedules.models.executions import Execution
from schedules.models.idempotency import IdempotencyKey
from schedules.models.installation import Installation
from schedules.models.job_queries import LATE_AFTER
from schedules.models.jobs import Job
from schedules.models.outputs import RunOutput
from schedules.models.people import Profile
from schedules.models.questions import Question, Reminder
from schedules.models.secrets import Secret
from schedules.models.sessions import UserSession
from schedules.models.tokens import Token

__all__ = [
    "FRESH_FOR",
    "LATE_AFTER",
    "Channel",
    "Cluster",
    "Event",
    "Execution",
    "IdempotencyKey",
    "Installation",
    "Job",
    "MachineStart",
    "Profile",
    "Question",
    "Reminder",
    "RunOutput",
    "Secret",
    "Token",
    "UserSession",
]
