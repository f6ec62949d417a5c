"""What time does: claim what is due, start it, settle how it went, and sweep up after the dead."""

from schedules.engine.claim import Claim, claim_runs
from schedules.engine.clock_rollback import recover_from_clock_rollback
from schedules.engine.clusters import beat, enlist, is_any_worker_running, probe_returned, retire
from schedules.engine.gaps import account_for, take_back_ahead, withdraw
from schedules.engine.outcomes import Outcome
from schedules.engine.plan import COUNTED_SLOTS
from schedules.engine.prune import prune_history
from schedules.engine.rescue import rearm, sweep, wake_up_at
from schedules.engine.settle import conclude, hand_back, let_go, renew, renew_claims, retry_at, settle_runs
from schedules.engine.start import Started, start_runs

__all__ = [
    "COUNTED_SLOTS",
    "Claim",
    "Outcome",
    "Started",
    "account_for",
    "beat",
    "claim_runs",
    "conclude",
    "enlist",
    "hand_back",
    "is_any_worker_running",
    "let_go",
    "probe_returned",
    "prune_history",
    "rearm",
    "recover_from_clock_rollback",
    "renew",
    "renew_claims",
    "retire",
    "retry_at",
    "settle_runs",
    "start_runs",
    "sweep",
    "take_back_ahead",
    "wake_up_at",
    "withdraw",
]
