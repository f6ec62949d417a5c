"""What time does: claim what is due, start it, settle how it went, and sweep up after the dead."""

from schedules.engine.claims import Claim, claim
from schedules.engine.clusters import beat, circle, enlist, is_any_worker_running, retire
from schedules.engine.gaps import account_for, withdraw
from schedules.engine.runs import (
    Outcome,
    conclude,
    hand_back,
    renew,
    renew_claims,
    retry_at,
    running_plain,
    settle,
)
from schedules.engine.starting import Started, start
from schedules.engine.sweeping import prune_history, rearm, sweep, wake_up_at

__all__ = [
    "Claim",
    "Outcome",
    "Started",
    "account_for",
    "beat",
    "circle",
    "claim",
    "conclude",
    "enlist",
    "hand_back",
    "is_any_worker_running",
    "prune_history",
    "rearm",
    "renew",
    "renew_claims",
    "retire",
    "retry_at",
    "running_plain",
    "settle",
    "start",
    "sweep",
    "wake_up_at",
    "withdraw",
]
