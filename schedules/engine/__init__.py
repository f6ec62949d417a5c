"""The engine: it claims due slots, starts and settles runs, and rescues the runs of dead clusters."""

from schedules.engine.claim import Claim, claim_runs, count_due, wake_up_at
from schedules.engine.clusters import beat, enlist, is_any_cluster_running, probe_returned, retire
from schedules.engine.failures import prepare_links
from schedules.engine.gaps import (
    COUNTED_SLOTS,
    PAUSED,
    account_for,
    account_for_each,
    account_for_pause,
    account_for_pauses,
)
from schedules.engine.history import Outcome
from schedules.engine.outputs import find_lost, save_output
from schedules.engine.pauses import pause, pause_each, rearm, rearm_each, withdraw, withdraw_each
from schedules.engine.rescue import hand_back, release_claims, release_uncalled, sweep
from schedules.engine.settle import Settled, conclude, renew, renew_claims, retry_at, settle_runs, stop_run
from schedules.engine.sql.queries import is_lock_timeout
from schedules.engine.sql.row_updates import update_rows
from schedules.engine.start import Started, start_runs
from schedules.engine.upkeep.clock_rollback import (
    delete_future_rows,
    jobs_with_future_rows,
    recover_from_clock_rollback,
)
from schedules.engine.upkeep.hosts import host_warnings
from schedules.engine.upkeep.prune import prune_history
from schedules.engine.upkeep.replan import follow_zone_data
from schedules.engine.upkeep.restore import Accounted, catch_up_since_backup, newest_trace, skip_since_backup
from schedules.engine.upkeep.run_pruning import RunPruner

__all__ = [
    "COUNTED_SLOTS",
    "PAUSED",
    "Accounted",
    "Claim",
    "Outcome",
    "RunPruner",
    "Settled",
    "Started",
    "account_for",
    "account_for_each",
    "account_for_pause",
    "account_for_pauses",
    "beat",
    "catch_up_since_backup",
    "claim_runs",
    "conclude",
    "count_due",
    "delete_future_rows",
    "enlist",
    "find_lost",
    "follow_zone_data",
    "hand_back",
    "host_warnings",
    "is_any_cluster_running",
    "is_lock_timeout",
    "jobs_with_future_rows",
    "newest_trace",
    "pause",
    "pause_each",
    "prepare_links",
    "probe_returned",
    "prune_history",
    "rearm",
    "rearm_each",
    "recover_from_clock_rollback",
    "release_claims",
    "release_uncalled",
    "renew",
    "renew_claims",
    "retire",
    "retry_at",
    "save_output",
    "settle_runs",
    "skip_since_backup",
    "start_runs",
    "stop_run",
    "sweep",
    "update_rows",
    "wake_up_at",
    "withdraw",
    "withdraw_each",
]
