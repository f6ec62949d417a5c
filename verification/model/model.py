"""The reference model of a job, as simple as possible: every slot is listed, and every rule is short."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from verification.model.slots import Once, Schedule

ON_TIME = timedelta(seconds=60)
CATCH_UP_WINDOW = timedelta(hours=6)
CATCH_UP_RUNS = 4
LEASE = timedelta(seconds=10)
CLUSTER_IS_SILENT = timedelta(seconds=15)
SETBACK = timedelta(seconds=60)
RESCUES = 2
HELD_RUNS = 100
RUNS_BY_HAND = 10
TICK = timedelta(microseconds=1)

UNDER_WAY = ("claimed", "running")
LIVE = ("queued", *UNDER_WAY)
NOT_RUN = ("missed", "skipped")


@dataclass(frozen=True)
class Terms:
    """The schedule and policies that a person chooses for a job."""

    schedule: Schedule
    ends_at: datetime | None = None
    max_runs: int | None = None
    overlap: str = "skip"
    catch_up: str = "once"
    attempts: int = 1
    backoff: timedelta = timedelta(seconds=10)
    pause_after_failures: int = 10
    at_most_once: bool = False
    label: str = ""

    @property
    def when(self) -> tuple[Any, ...]:
        return self.schedule, self.ends_at, self.max_runs


@dataclass(eq=False)
class Row:
    """One row of the ledger; it covers several slots only if none of them was run."""

    slots: list[datetime]
    cause: str
    status: str
    attempt: int = 0
    available_at: datetime | None = None
    cluster: int | None = None
    lease_until: datetime | None = None
    times_claimed: int = 0
    has_failed: bool = False

    @property
    def is_live(self) -> bool:
        return self.status in LIVE

    @property
    def is_held_back(self) -> bool:
        return self.status == "queued" and self.available_at is None

    @property
    def never_started(self) -> bool:
        return self.status == "queued" and self.attempt == 0

    def is_ready(self, now: datetime) -> bool:
        return self.status == "queued" and self.available_at is not None and self.available_at <= now

    def covers(self, slot: datetime) -> bool:
        return self.cause != "manual" and self.slots[0] <= slot <= self.slots[-1]

    def claim(self, cluster: int, now: datetime) -> None:
        self.status, self.cluster, self.lease_until, self.available_at = "claimed", cluster, now + LEASE, None
        self.times_claimed += 1

    @property
    def is_failure(self) -> bool:
        return self.status in ("failed", "lost")

    def give_back(self, now: datetime) -> None:
        """Queue a claimed run again; nobody has held it since its lease ended."""
        assert self.lease_until is not None
        self.queue(min(now, self.lease_until))

    def queue(self, now: datetime) -> None:
        self.status, self.cluster, self.lease_until, self.available_at = "queued", None, None, now

    def end(self, status: str) -> None:
        self.status, self.lease_until, self.available_at = status, None, None


@dataclass(eq=False)
class Job:
    terms: Terms
    status: str = "pending"
    next_run_at: datetime | None = None
    paused_at: datetime | None = None
    paused_until: datetime | None = None
    deleted_at: datetime | None = None
    cancelled_at: datetime | None = None
    paused_before_cancel: bool = False
    until_before_cancel: datetime | None = None
    slot_count: int = 0
    run_count: int = 0
    failure_streak: int = 0
    rows: list[Row] = field(default_factory=list)

    # Slots

    def slots(self, after: datetime, until: datetime) -> list[datetime]:
        """Return every slot after the first moment and up to the second, inclusive."""
        return self.terms.schedule.between(after, min(until, self.terms.ends_at or until))

    def first_after(self, moment: datetime) -> datetime | None:
        if self.has_used_all_runs:
            return None
        slot = self.terms.schedule.first_after(moment)
        return slot if slot and slot <= (self.terms.ends_at or slot) else None

    @property
    def has_used_all_runs(self) -> bool:
        return self.terms.max_runs is not None and self.slot_count >= self.terms.max_runs

    @property
    def is_armed(self) -> bool:
        return self.status == "pending" and self.deleted_at is None

    @property
    def live(self) -> list[Row]:
        return [row for row in self.rows if row.is_live]

    def is_accounted_for(self, slot: datetime) -> bool:
        return any(row.covers(slot) for row in self.rows)

    # Actions of people; each returns whether it was accepted

    def create(self, now: datetime, *, paused: bool) -> bool:
        self.next_run_at = self.first_after(now)
        if self.next_run_at is None:
            return False
        if paused:
            self.status, self.next_run_at, self.paused_at = "paused", None, now
        return True

    def edit(self, terms: Terms, now: datetime) -> bool:
        if terms == self.terms:
            return self.deleted_at is None
        if self.deleted_at or self.status not in ("pending", "paused"):
            return False
        if terms.when == self.terms.when:
            self.terms = terms
            return True
        following = replace(self, terms=terms).first_after(now)
        if following is None:
            return False
        self._skip_due_slots(now)
        self._withdraw_future_slots(now)
        self.terms = terms
        if self.status == "pending":
            self.next_run_at = following
        else:
            self.paused_at = now
        return True

    def pause(self, now: datetime, until: datetime | None) -> bool:
        if self.deleted_at or self.status not in ("pending", "paused") or (until and until <= now):
            return False
        if self.status == "paused":
            self.paused_until = until
        else:
            self._pause(now, until)
        return True

    def _pause(self, now: datetime, until: datetime | None) -> None:
        self._skip_due_slots(now)
        self._withdraw(now, by_hand=False)
        self.status, self.next_run_at, self.paused_at, self.paused_until = "paused", None, now, until

    def resume(self, now: datetime) -> bool:
        following = self.first_after(now)
        if self.deleted_at or self.status != "paused" or following is None:
            return False
        self._skip_due_slots(now)
        self._withdraw_future_slots(now)
        self.status, self.next_run_at, self.paused_at, self.paused_until = "pending", following, None, None
        return True

    def cancel(self, now: datetime) -> bool:
        if self.deleted_at or self.status not in ("pending", "paused", "running"):
            return False
        self._skip_due_slots(now)
        self._withdraw(now, by_hand=True)
        self.paused_before_cancel, self.until_before_cancel = self.status == "paused", self.paused_until
        self.status, self.next_run_at, self.paused_until, self.cancelled_at = "cancelled", None, None, now
        return True

    def delete(self, now: datetime) -> bool:
        if self.deleted_at:
            return False
        self._skip_due_slots(now)
        self._withdraw(now, by_hand=True)
        self.deleted_at = now
        return True

    def restore(self, now: datetime) -> bool:
        since = self.deleted_at
        if since is None:
            if self.status != "cancelled":
                return False
            assert self.cancelled_at is not None
            until, since = self.until_before_cancel, self.cancelled_at
            has_ended = until is not None and until <= now
            self.status = "paused" if self.paused_before_cancel and not has_ended else "pending"
            if self.status == "paused":
                self.paused_until = until
        if self.status in ("pending", "paused"):
            self._account_for(self.slots(since, now), "skipped")
        self.deleted_at = None
        if self.status == "pending":
            self._withdraw_future_slots(now)
            self.next_run_at = self.first_after(now)
            if self.next_run_at is None:
                self.status = "paused"
        if self.status == "paused":
            self.paused_at = now
        if self.status == "running" and not self.live:
            self.status = "completed"
        return True

    def run_now(self, now: datetime) -> bool:
        waiting = [row for row in self.rows if row.cause == "manual" and row.status in ("queued", "claimed")]
        if self.deleted_at or self.status == "cancelled" or len(waiting) >= RUNS_BY_HAND:
            return False
        self.rows.append(Row([now], "manual", "queued", available_at=now))
        return True

    # Actions of clusters

    def take(self, now: datetime, cluster: int) -> None:
        """Decide about every due slot, oldest first, and move on to the next slot."""
        assert self.is_armed
        assert self.next_run_at is not None
        due = [self.next_run_at, *self.slots(self.next_run_at, now)]
        chosen = self._chosen(due, now)
        known = len(self.rows)
        self._account_for([slot for slot in due if slot not in chosen], "missed")
        for slot in chosen:
            if self.is_accounted_for(slot):
                continue
            cause = "schedule" if now - slot <= ON_TIME else "catch_up"
            status = self._beside_live_runs(cause)
            if status != "skipped" and self.has_used_all_runs:
                break
            self.rows.append(row := Row([slot], cause, status))
            if status != "skipped":
                self.slot_count += 1
                self.run_count += 1
            if status == "claimed":
                row.claim(cluster, now)
        self.next_run_at = self.first_after(max(now, due[-1]))
        if self.next_run_at is None:
            self._end(has_failed=len(self.rows) > known)

    def _chosen(self, due: list[datetime], now: datetime) -> list[datetime]:
        """Return the newest due slots: as many as the catch-up policy allows."""
        recent = [slot for slot in due if now - slot <= CATCH_UP_WINDOW]
        match self.terms.catch_up:
            case "all":
                return recent[-CATCH_UP_RUNS:]
            case "once":
                return recent[-1:]
            case _:
                return [slot for slot in recent[-1:] if now - slot <= ON_TIME]

    def _beside_live_runs(self, cause: str) -> str:
        live = len(self.live)
        if not live or self.terms.overlap == "allow" or isinstance(self.terms.schedule, Once):
            return "claimed"
        if (self.terms.overlap == "skip" and cause == "schedule") or live > HELD_RUNS:
            return "skipped"
        return "queued"

    def take_ready(self, row: Row, now: datetime, cluster: int) -> None:
        assert row.is_ready(now)
        assert not self.is_too_late(row, row.available_at, now)
        assert not self.must_not_repeat(row)
        assert self._may_go_on(row) or (row.cause == "manual" and row.attempt == 0 and not self.deleted_at)
        if row.cause == "manual" and not row.times_claimed:
            self.run_count += 1
        row.claim(cluster, now)

    def start(self, row: Row, cluster: int, attempt: int, now: datetime) -> bool:
        if (row.status, row.cluster, row.attempt) != ("claimed", cluster, attempt):
            return False
        row.status, row.attempt, row.lease_until = "running", attempt + 1, now + LEASE
        return True

    def settle(
        self, row: Row, cluster: int, attempt: int, status: str, now: datetime, retry_at: datetime | None
    ) -> bool:
        if (row.status, row.cluster, row.attempt) != ("running", cluster, attempt):
            return False
        if retry_at and self._may_go_on(row):
            row.status, row.available_at, row.lease_until, row.has_failed = "queued", retry_at, None, True
        else:
            row.end(status)
            self._conclude([row], now)
        return True

    def rescue(self, rows: Iterable[Row], now: datetime) -> None:
        """Queue the runs of a dead cluster again, unless they killed too many workers or their job was stopped."""
        lost, not_repeated, late = [], [], []
        for row in rows:
            if not self._may_go_on(row) or row.attempt >= self.terms.attempts + RESCUES:
                row.end("lost")
                lost.append(row)
            elif self.terms.at_most_once:
                row.end("lost")
                not_repeated.append(row)
            elif self.is_too_late(row, row.lease_until, now):
                late.append(row)
            else:
                row.queue(now)
                row.has_failed = False
        for ended in filter(None, (lost, not_repeated)):
            self._conclude(ended, now)
        self.end_late(late, now)

    def must_not_repeat(self, row: Row) -> bool:
        """Return whether a queued run was lost before its job was given the policy to start each run at most once."""
        return self.terms.at_most_once and row.attempt > 0 and not row.has_failed

    def end_lost(self, lost: list[Row], now: datetime) -> None:
        for row in lost:
            row.end("lost")
        if lost:
            self._conclude(lost, now)

    def is_too_late(self, row: Row, since: datetime | None, now: datetime) -> bool:
        """Return whether nobody could start the run for so long that it must not start any more."""
        assert since is not None
        if row.cause == "manual":
            return now - since > CATCH_UP_WINDOW
        if not row.attempt and now - row.slots[0] > CATCH_UP_WINDOW:
            return True
        return now - since > (ON_TIME if self.terms.catch_up == "none" else CATCH_UP_WINDOW)

    def end_late(self, late: list[Row], now: datetime) -> None:
        """End late runs, and those that wait behind them if the job leaves missed slots out."""
        ended = [row for row in late if row.is_live]
        for row in ended:
            is_retry = row.has_failed and row.status == "queued"
            row.end("missed" if not row.attempt else "failed" if is_retry else "lost")
        missed = sum(row.status == "missed" and row.cause != "manual" for row in ended)
        if late and self.terms.catch_up == "none":
            for row in self.rows:
                if row.is_held_back and now - row.slots[0] > ON_TIME:
                    row.end("missed")
                    missed += 1
        self._uncount(missed)
        if missed and self.status == "running":
            following = self.first_after(max(row.slots[-1] for row in self.rows if row.cause != "manual"))
            if following:
                self.status, self.next_run_at = "pending", following
        if ended:
            self._conclude(ended, now)

    def end_pause(self, now: datetime) -> None:
        """Resume the job if its pause has expired."""
        if not self.resume(now):
            self._skip_due_slots(now)
            self._withdraw_future_slots(now)
            self.status, self.paused_until = "completed", None

    def arm_for_now(self, now: datetime) -> None:
        """Rearm the job after the clock was set back: the slots in between are in the future again."""
        following = self.first_after(now)
        if self.is_armed and following and self.next_run_at and following + SETBACK < self.next_run_at:
            self.next_run_at = following
            self._withdraw_future_slots(now)

    # Shared rules

    def _may_go_on(self, row: Row) -> bool:
        if self.deleted_at or self.status == "cancelled":
            return False
        return self.status != "paused" or row.cause == "manual"

    def _account_for(self, slots: list[datetime], status: str) -> None:
        """Write one row for all slots without a row, or several if other rows lie between them."""
        spans = sorted((row.slots[0], row.slots[-1]) for row in self.rows if row.cause != "manual")
        gaps: list[list[datetime]] = []
        before: datetime | None = None
        for slot in slots:
            while spans and spans[0][1] < slot:
                spans.pop(0)
                before = None
            if spans and spans[0][0] <= slot:
                before = None
                continue
            if before is None:
                gaps.append([])
            gaps[-1].append(slot)
            before = slot
        self.rows += [Row(gap, "schedule", status) for gap in gaps]

    def _skip_due_slots(self, now: datetime) -> None:
        if self.status == "paused" and self.paused_at:
            self._account_for(self.slots(self.paused_at, now), "skipped")
        elif self.next_run_at:
            self._account_for(self.slots(self.next_run_at - TICK, now), "skipped")

    def _withdraw_future_slots(self, now: datetime) -> None:
        ahead = [
            row for row in self.rows if row.never_started and row.cause != "manual" and row.slots[0] > now
        ]
        if ahead:
            self.rows = [row for row in self.rows if row not in ahead]
            self._uncount(len(ahead))
            self._release_next(now)
        for row in self.rows:
            if row.status in NOT_RUN:
                row.slots = [slot for slot in row.slots if slot <= now]
        self.rows = [row for row in self.rows if row.slots]

    def _uncount(self, runs: int) -> None:
        """Runs that were planned, and neither run nor will, are not counted."""
        self.slot_count -= runs
        self.run_count -= runs

    def _withdraw(self, now: datetime, *, by_hand: bool) -> None:
        for row in self.rows:
            if row.status in ("queued", "claimed") and (by_hand or row.cause != "manual"):
                self.failure_streak += bool(row.attempt)
                row.end("failed" if row.attempt else "cancelled")
        self._release_next(now)

    def _conclude(self, ended: list[Row], now: datetime) -> None:
        before = self.failure_streak
        for row in ended:
            self.failure_streak = 0 if row.status == "succeeded" else self.failure_streak + row.is_failure
            before = min(before, self.failure_streak)
        has_failed = ended[-1].status != "succeeded"
        if self.status == "running" and not self.live:
            self._end(has_failed=has_failed)
        self._release_next(now)
        limit = self.terms.pause_after_failures
        # A resumed job may fail as often again.
        if limit and self.is_armed and self.failure_streak // limit > before // limit:
            self._pause(now, None)

    def _release_next(self, now: datetime) -> None:
        if self.live and all(row.is_held_back for row in self.live):
            self.live[0].available_at = now

    def _end(self, *, has_failed: bool) -> None:
        if self.live:
            self.status = "running"
        else:
            is_one_off = isinstance(self.terms.schedule, Once)
            self.status = "failed" if has_failed and is_one_off else "completed"


@dataclass(eq=False)
class Cluster:
    last_seen_at: datetime
    is_given_up: bool = False


def hand_back(jobs: list[Job], cluster: int, now: datetime, *, also_running: bool) -> None:
    for job in jobs:
        for row in job.rows:
            if row.status == "claimed" and row.cluster == cluster:
                row.give_back(now)
        if also_running:
            job.rescue([row for row in job.rows if row.status == "running" and row.cluster == cluster], now)


def sweep(jobs: list[Job], clusters: dict[int, Cluster], now: datetime, *, after_setback: bool) -> None:
    for number, cluster in clusters.items():
        if not cluster.is_given_up and now - cluster.last_seen_at > CLUSTER_IS_SILENT:
            hand_back(jobs, number, now, also_running=False)
            cluster.is_given_up = True
    for job in jobs:
        expired = [row for row in job.rows if row.lease_until and row.lease_until < now]
        job.rescue([row for row in expired if row.status == "running"], now)
        for row in expired:
            if row.status == "claimed":
                row.give_back(now)
    for job in jobs:
        if job.status == "paused" and not job.deleted_at and job.paused_until and job.paused_until <= now:
            job.end_pause(now)
    if after_setback:
        correct_future_times(jobs, clusters, now)
        for job in jobs:
            if job.next_run_at and job.next_run_at > now + SETBACK:
                job.arm_for_now(now)


def correct_future_times(jobs: list[Job], clusters: dict[int, Cluster], now: datetime) -> None:
    """Correct future times: no heartbeat is later than now, no lease too long, and no first attempt waits."""
    for cluster in clusters.values():
        cluster.last_seen_at = min(cluster.last_seen_at, now)
    for row in (row for job in jobs for row in job.rows):
        if row.lease_until:
            row.lease_until = min(row.lease_until, now + LEASE)
        if row.never_started and row.available_at and row.slots[0] <= now:
            row.available_at = min(row.available_at, now)
