"""What time does: claim what is due, start it, settle how it went, and sweep up after the dead."""

from schedules.engine.claims import Claim, claim
from schedules.engine.clusters import beat, circle, enlist, is_any_worker_running, retire
from schedules.engine.gaps import account_for, take_back_ahead, withdraw
from schedules.engine.outcomes import Outcome
from schedules.engine.pruning import prune_history
from schedules.engine.runs import (
    conclude,
    hand_back,
    let_go,
    renew,
    renew_claims,
    retry_at,
    settle,
)
from schedules.engine.setback import recover_from_setback
from schedules.engine.slots import COUNTED_SLOTS
from schedules.engine.starting import Started, start
from schedules.engine.sweeping import rearm, sweep, wake_up_at

__all__ = [
    "COUNTED_SLOTS",
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
    "let_go",
    "prune_history",
    "rearm",
    "recover_from_setback",
    "renew",
    "renew_claims",
    "retire",
    "retry_at",
    "settle",
    "start",
    "sweep",
    "take_back_ahead",
    "wake_up_at",
    "withdraw",
]
