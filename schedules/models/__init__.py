"""The tables: jobs, calendars, runs, their output, agents, approvals and stops of agents, questions, heartbeats and pings, clusters, starts of machines, profiles, tokens, secrets, channels, incidents, sessions, events, the installation."""

from schedules.models.agent_runs import AgentRun, AgentStop, PromptGate
from schedules.models.approvals import Approval
from schedules.models.calendars import Calendar
from schedules.models.channels import Channel, EventType
from schedules.models.clusters import FRESH_FOR, Cluster, MachineStart
from schedules.models.events import Event
from schedules.models.executions import Execution
from schedules.models.heartbeats import KEPT_PINGS, Heartbeat, Ping
from schedules.models.incidents import Incident
from schedules.models.installation import Installation
from schedules.models.job_queries import LATE_AFTER
from schedules.models.jobs import Job
from schedules.models.outputs import RunOutput
from schedules.models.people import Profile
from schedules.models.questions import Question, Reminder
from schedules.models.secrets import Secret
from schedules.models.sessions import UserSession
from schedules.models.tokens import IdempotencyKey, Token
from schedules.models.trigger_addresses import TriggerAddress, TriggerCall

__all__ = [
    "FRESH_FOR",
    "KEPT_PINGS",
    "LATE_AFTER",
    "AgentRun",
    "AgentStop",
    "Approval",
    "Calendar",
    "Channel",
    "Cluster",
    "Event",
    "EventType",
    "Execution",
    "Heartbeat",
    "IdempotencyKey",
    "Incident",
    "Installation",
    "Job",
    "MachineStart",
    "Ping",
    "Profile",
    "PromptGate",
    "Question",
    "Reminder",
    "RunOutput",
    "Secret",
    "Token",
    "TriggerAddress",
    "TriggerCall",
    "UserSession",
]
