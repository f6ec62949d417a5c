"""The engine: it claims due slots, starts and settles runs, and rescues the runs of dead clusters."""

from schedules.engine.alerts import prepare_links, reopen_incident, send_alerts
from schedules.engine.approvals import ask_in_run
from schedules.engine.claim import Claim, claim_runs, count_due, wake_up_at
from schedules.engine.clusters import (
    beat,
    dead_hosts,
    enlist,
    host_warnings,
    note_machine_start,
    note_watch_answer,
    probe_returned,
    remember_machine_start,
    retire,
    take_watch_turn,
)
from schedules.engine.denials import (
    close_approval,
    close_approvals,
    close_incident,
    deny,
    is_awaited_in_run,
)
from schedules.engine.event_deliveries import (
    SEND_EVENT,
    delivery_of,
    new_event,
    publish_changes,
    publish_taken_prompt,
    waiting_deliveries,
)
from schedules.engine.followers import DEEPEST_CHAIN, depth_of
from schedules.engine.gaps import (
    COUNTED_SLOTS,
    PAUSED,
    account_for,
    account_for_each,
    account_for_pause,
    account_for_pauses,
)
from schedules.engine.heartbeat_state import Signal
from schedules.engine.history import Outcome
from schedules.engine.incident_watch import note_outage, watch_incidents
from schedules.engine.incidents import (
    OUTAGE,
    end_for_everybody,
    end_incident,
    pause_for_good,
    raise_incident,
    raise_proposals,
    subject_of_secret,
)
from schedules.engine.pauses import pause, pause_each, rearm, rearm_each, withdraw, withdraw_each
from schedules.engine.pings import receive
from schedules.engine.progress import find_lost, save_agent_run, save_output
from schedules.engine.questions import asked_by, read_reminder, send_reminders, withdraw_reminders
from schedules.engine.quiet_hours import QuietHours, quiet_hours_ahead, release_held, waits_for_quiet_hours
from schedules.engine.rescue import hand_back, release_claims, release_uncalled, sweep
from schedules.engine.settle import (
    Settled,
    conclude,
    renew,
    renew_claims,
    retry_at,
    settle_runs,
    stop_run,
)
from schedules.engine.sql.runs import Started, start_runs
from schedules.engine.sql.statements import is_lock_timeout, update_rows
from schedules.engine.upkeep.calendars import (
    compile_calendar,
    follow_calendar,
    jobs_by_calendar,
    references_of,
    refresh_calendars,
)
from schedules.engine.upkeep.clock_rollback import (
    delete_future_rows,
    jobs_with_future_rows,
    recover_from_clock_rollback,
)
from schedules.engine.upkeep.prune import RunPruner, prune_history
from schedules.engine.upkeep.replan import follow_zone_data
from schedules.engine.upkeep.restore import Accounted, catch_up_since_backup, newest_trace, skip_since_backup
from schedules.models.clusters import is_any_cluster_running
