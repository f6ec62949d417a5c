"""State machine: random actions of people, clusters and the clock, applied to Cronty and to the reference."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, TypeAlias

from django.db import transaction
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from schedules import engine, models, services
from schedules.engine import Claim, Outcome, Started
from schedules.engine.upkeep import clock_rollback
from schedules.models import Event, Execution
from schedules.result import Ok, Result
from tests.factories import ClusterFactory, UserFactory
from verification.model import model
from verification.model.choices import (
    AHEAD,
    DAY,
    ENDINGS,
    ENDS,
    HOUR,
    LATE,
    LENGTHS,
    MINUTE,
    NEW_JOB,
    POLICIES,
    SECOND,
    STARTS,
    WHEN,
    When,
    columns_of,
)
from verification.model.slots import Once

Span: TypeAlias = tuple[datetime, datetime]

MOST_JOBS = 3
PLENTY = 1000


class SimulatedTime:
    """The wall clock, which may go back, and the seconds that have actually passed."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.passed = 0.0
        self.furthest = now

    def step(self, step: timedelta) -> None:
        self.now += step
        self.passed += max(0.0, step.total_seconds())
        self.furthest = max(self.furthest, self.now)


TIME = SimulatedTime(STARTS[0])


class Pair:
    """One job in Cronty and its counterpart in the reference."""

    def __init__(self, job: model.Job, stored_id: int, public_id: str) -> None:
        self.model = job
        self.stored_id = stored_id
        self.public_id = public_id
        self.revision = 0
        # Slots that fell due while the job was armed or paused: each must end up in one row.
        self.owed: set[datetime] = set()
        self.most_attempts = 0
        self.ever_allowed_overlap = False
        self.remember_terms()

    def remember_terms(self) -> None:
        terms = self.model.terms
        self.most_attempts = max(self.most_attempts, terms.attempts)
        # A job edited to run once has one slot, which may run beside runs left from its earlier schedule.
        self.ever_allowed_overlap |= terms.overlap == "allow" or isinstance(terms.schedule, Once)

    def is_owed(self, slot: datetime) -> bool:
        job = self.model
        if job.deleted_at:
            return False
        if job.status == "paused" and job.paused_at:
            return slot > job.paused_at
        return job.next_run_at is not None and slot >= job.next_run_at

    def rows_by_id(self) -> dict[int, model.Row]:
        """Match rows by position: both sides write the rows of one job in the same order."""
        stored = Execution.objects.filter(job=self.stored_id).order_by("pk").values_list("pk", flat=True)
        assert len(stored) == len(self.model.rows)
        return dict(zip(stored, self.model.rows, strict=True))


class Agreement(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.transaction = transaction.atomic()
        self.transaction.__enter__()
        # A new process has not read the clock yet.
        clock_rollback._recovery = clock_rollback._Recovery()
        self.setback = model.SETBACK + SECOND
        self.pairs: list[Pair] = []
        self.claims: list[tuple[Pair, model.Row, int, Claim]] = []
        self.runs: list[tuple[Pair, model.Row, int, Started]] = []
        self.final: dict[int, tuple[Any, ...]] = {}

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.transaction.__exit__(None, None, None)

    @initialize(
        start=st.sampled_from(STARTS), jobs=st.lists(st.fixed_dictionaries(NEW_JOB), min_size=1, max_size=2)
    )
    def begin(self, start: datetime, jobs: list[dict[str, Any]]) -> None:
        TIME.__init__(start)  # type: ignore[misc]
        owner = UserFactory()
        self.actor = services.Actor(owner, Event.Door.WEB)
        self.rescheduled_at = start - DAY
        self.clusters = {ClusterFactory(started_at=start).pk: model.Cluster(start) for _ in range(2)}
        for job in jobs:
            self.create(**job)

    # People

    @precondition(lambda self: len(self.pairs) < MOST_JOBS)
    @rule(**NEW_JOB)
    def create(self, when: When, ends_in: timedelta | None, paused: bool, policies: dict[str, Any]) -> None:
        ends_at = TIME.now + ends_in if ends_in else None
        terms = model.Terms(when.at(TIME.now), ends_at, **policies)
        job = model.Job(terms)
        is_accepted = job.create(TIME.now, paused=paused)
        result = self._ask(
            is_accepted,
            lambda: services.schedule(
                self.actor, name="job", task="tests.ping", paused=paused, **columns_of(terms)
            ),
        )
        if is_accepted:
            self.pairs.append(Pair(job, result.value.job.pk, result.value.job.public_id))

    @precondition(lambda self: self.pairs)
    @rule(
        which=st.integers(0, 9),
        when=st.none() | WHEN,
        ends_in=st.just(()) | ENDS,
        policies=st.fixed_dictionaries({}, optional=POLICIES),
    )
    def edit(
        self, which: int, when: When | None, ends_in: timedelta | tuple[()] | None, policies: dict[str, Any]
    ) -> None:
        pair = self._pick(which)
        old = pair.model.terms
        terms = replace(old, **policies)
        if when:
            terms = replace(terms, schedule=when.at(TIME.now, old.schedule))
        if ends_in != ():
            terms = replace(terms, ends_at=TIME.now + ends_in if ends_in else None)  # type: ignore[operator]
        is_accepted = pair.model.edit(terms, TIME.now)
        if pair.model.terms.when != old.when:
            self.rescheduled_at = TIME.now
        self._ask(is_accepted, lambda: services.edit(self.actor, pair.public_id, **columns_of(terms)))
        pair.remember_terms()

    @precondition(lambda self: self.pairs)
    @rule(which=st.integers(0, 9), until_in=st.none() | AHEAD)
    def pause(self, which: int, until_in: timedelta | None) -> None:
        pair = self._pick(which)
        until = TIME.now + until_in if until_in else None
        is_accepted = pair.model.pause(TIME.now, until)
        self._ask(is_accepted, lambda: services.pause(self.actor, pair.public_id, until=until))

    @precondition(lambda self: self.pairs)
    @rule(which=st.integers(0, 9), verb=st.sampled_from(["run_now", "resume", "restore", "delete", "cancel"]))
    def act(self, which: int, verb: str) -> None:
        self._act(self._pick(which), verb)

    @precondition(lambda self: self._pairs_where(lambda job: job.status == "paused"))
    @rule(which=st.integers(0, 9))
    def resume(self, which: int) -> None:
        self._act(self._pick(which, lambda job: job.status == "paused"), "resume")

    @precondition(lambda self: self._pairs_where(lambda job: job.deleted_at is not None))
    @rule(which=st.integers(0, 9))
    def restore(self, which: int) -> None:
        self._act(self._pick(which, lambda job: job.deleted_at is not None), "restore")

    def _act(self, pair: Pair, verb: str) -> None:
        is_accepted = getattr(pair.model, verb)(TIME.now)
        self._ask(is_accepted, lambda: getattr(services, verb)(self.actor, pair.public_id))

    # Time

    @rule(length=LENGTHS)
    def time_passes(self, length: timedelta) -> None:
        self._step(length)

    @precondition(lambda self: self._pairs_where(lambda job: job.is_armed))
    @rule(which=st.integers(0, 9), late=LATE)
    def next_slot_comes(self, which: int, late: timedelta) -> None:
        moment = self._pick(which, lambda job: job.is_armed).model.next_run_at
        assert moment is not None
        self._step(min(max(moment + late - TIME.now, timedelta(0)), 3 * DAY))

    @precondition(lambda self: self.pairs and TIME.now == TIME.furthest)
    @rule(
        length=st.sampled_from([2 * HOUR, 15 * MINUTE, 40 * SECOND, SECOND]),
        is_noticed=st.sampled_from([True, True, False]),
    )
    def clock_is_set_back(self, length: timedelta, is_noticed: bool) -> None:
        # Not to before a schedule change: a gap row does not store its individual slots.
        length = min(length, TIME.now - self.rescheduled_at)
        self.setback += length
        self._step(-length)
        if is_noticed:
            self.sweep()

    def _step(self, length: timedelta) -> None:
        before = TIME.now
        TIME.step(length)
        for pair in self.pairs:
            pair.owed = {slot for slot in pair.owed if slot <= TIME.now}
            pair.owed.update(filter(pair.is_owed, pair.model.slots(before, TIME.now)))

    # Clusters

    @precondition(lambda self: self.pairs)
    @rule(number=st.integers(0, 1), limit=st.sampled_from([PLENTY, PLENTY, 1, 2]))
    def claim(self, number: int, limit: int) -> None:
        cluster = list(self.clusters)[number]
        engine.beat(cluster, TIME.now)
        self.clusters[cluster] = model.Cluster(TIME.now)
        ready = [(pair, row) for pair in self.pairs for row in pair.model.rows if row.is_ready(TIME.now)]
        ids = {row: row_id for pair in self.pairs for row_id, row in pair.rows_by_id().items()}

        claims = {claim.execution_id: claim for claim in engine.claim_runs(cluster, TIME.now, limit)}

        still_queued = set(Execution.objects.ready(TIME.now).values_list("pk", flat=True))
        taken = [(pair, row) for pair, row in ready if ids[row] not in still_queued]
        assert len(taken) == min(limit, len(ready)), "a queued run was ready and was not taken"
        # If the limit is reached, the oldest is claimed first; the engine chooses between equals.
        left = [row.available_at for _, row in ready if ids[row] in still_queued]
        assert not left or max(row.available_at for _, row in taken) <= min(left)
        lost: dict[Pair, list[model.Row]] = {pair: [] for pair, _ in taken}
        late: dict[Pair, list[model.Row]] = {pair: [] for pair, _ in taken}
        for pair, row in taken:
            if pair.model.must_not_repeat(row):
                lost[pair].append(row)
            elif pair.model.is_too_late(row, row.available_at, TIME.now):
                late[pair].append(row)
            else:
                assert ids[row] in claims
                pair.model.take_ready(row, TIME.now, cluster)
        for pair, rows in lost.items():
            pair.model.end_lost(rows, TIME.now)
        for pair, rows in late.items():
            pair.model.end_late(rows, TIME.now)
        # Also jobs that have runs left again, because late ones were missed.
        due = [pair for pair in self.pairs if pair.model.is_armed and pair.model.next_run_at <= TIME.now]  # type: ignore[operator]
        moments = dict(models.Job.objects.values_list("pk", "next_run_at"))
        for pair in due:
            if moments[pair.stored_id] != pair.model.next_run_at:
                pair.model.take(TIME.now, cluster)
            else:
                assert limit < PLENTY, "a due job was left out"
        for pair in self.pairs:
            for row_id, row in pair.rows_by_id().items():
                if (claim := claims.pop(row_id, None)) and row.is_live:
                    self._check_claim(pair.model, row, claim)
                    self.claims.append((pair, row, cluster, claim))
        assert not claims

    def _check_claim(self, job: model.Job, row: model.Row, claim: Claim) -> None:
        """Check that no claim is early, and none is for a stopped job."""
        # By the earlier clock: a run that was handed back then may be claimed again after it was set back.
        assert row.slots[0] <= (TIME.furthest if row.times_claimed > 1 else TIME.now)
        assert job.deleted_at is None
        assert row.cause == "manual" or job.status in ("pending", "running")
        assert claim.attempt == row.attempt

    @precondition(lambda self: self.claims)
    @rule(which=st.integers(0, 99), is_kept=st.sampled_from([False, False, False, True]))
    def start(self, which: int, is_kept: bool) -> None:
        """Start a claim; a kept claim is delivered a second time later and must not start anything then."""
        index = which % len(self.claims)
        pair, row, cluster, claim = self.claims[index] if is_kept else self.claims.pop(index)
        # No two deliveries happen within one microsecond.
        self._step(model.TICK)
        is_ours = pair.model.start(row, cluster, claim.attempt, TIME.now)
        started = engine.start_runs(cluster, claim.attempt, [claim.execution_id], TIME.now)
        assert bool(started) is is_ours
        for run in started:
            assert run.scheduled_for == row.slots[0]
            self.runs.append((pair, row, cluster, run))

    @precondition(lambda self: self.runs)
    @rule(which=st.integers(0, 99), ends=st.sampled_from(["succeeded", "failed", "failed for good"]))
    def settle(self, which: int, ends: str) -> None:
        """Settle a run; a cluster that was retired may still report, which must not change anything."""
        pair, row, cluster, run = self.runs.pop(which % len(self.runs))
        retry_at = engine.retry_at(run, TIME.now) if ends == "failed" else None
        if ends == "failed":
            self._check_retry(run, retry_at)
        status = ends.split()[0]
        is_ours = pair.model.settle(row, cluster, run.attempt, status, TIME.now, retry_at)
        outcome = Outcome(
            run.execution_id,
            run.attempt,
            run.job_id,
            Execution.Status(status),
            TIME.now,
            error="" if status == "succeeded" else "It failed.",
            retry_at=retry_at,
        )
        assert engine.settle_runs(cluster, [outcome]) == (is_ours, [])

    def _check_retry(self, run: Started, retry_at: datetime | None) -> None:
        assert (retry_at is None) == (run.attempt >= run.attempts)
        if retry_at:
            wait = min(run.backoff * 2 ** (run.attempt - 1), HOUR)
            assert wait * 0.75 <= retry_at - TIME.now <= wait * 1.25

    @precondition(lambda self: self._pairs_where(lambda job: job.is_armed))
    @rule(
        rounds=st.lists(st.tuples(st.integers(0, 9), LATE, st.sampled_from(ENDINGS)), min_size=1, max_size=4)
    )
    def slots_fall_due_and_run(self, rounds: list[tuple[int, timedelta, str]]) -> None:
        """Perform the most common steps: time passes, runs are claimed, started and settled."""
        for which, late, ending in rounds:
            if self._pairs_where(lambda job: job.is_armed):
                self.next_slot_comes(which, late)
            self.claim(which % 2, PLENTY)
            while self.claims and ending != "claimed":
                self.start(0, is_kept=False)
            while self.runs and ending in ("succeeded", "failed"):
                self.settle(0, ending)

    @precondition(lambda self: self.pairs)
    @rule(number=st.integers(0, 1), also_running=st.booleans())
    def hand_back(self, number: int, also_running: bool) -> None:
        cluster = list(self.clusters)[number]
        model.hand_back(self._models, cluster, TIME.now, also_running=also_running)
        engine.hand_back(cluster, TIME.now, also_running=also_running)

    @precondition(lambda self: self.runs)
    @rule(which=st.integers(0, 99))
    def renew(self, which: int) -> None:
        _, row, cluster, run = self.runs[which % len(self.runs)]
        if (row.status, row.cluster) == ("running", cluster):
            row.lease_until = TIME.now + model.LEASE
        engine.renew(cluster, [run.execution_id], TIME.now)

    @precondition(lambda self: self.pairs)
    @rule()
    def sweep(self) -> None:
        model.sweep(self._models, self.clusters, TIME.now, after_setback=self.setback > model.SETBACK)
        engine.sweep(TIME.now)
        engine.recover_from_clock_rollback(TIME.now)
        self.setback = timedelta(0)

    # Invariants after every step

    @invariant()
    def invariants_hold(self) -> None:
        jobs = models.Job.objects.in_bulk()
        rows = list(Execution.objects.order_by("pk"))
        for pair in self.pairs:
            job = jobs[pair.stored_id]
            own = [row for row in rows if row.job_id == job.pk]
            self._both_sides_agree(pair.model, job, own)
            self._limits_hold(pair, job, own)
            scheduled = [row for row in own if row.cause != "manual"]
            spans = sorted((row.scheduled_for, row.last_slot or row.scheduled_for) for row in scheduled)
            self._no_slot_has_two_rows(spans)
            self._every_due_slot_has_a_row(pair, job, spans)
        self._final_rows_do_not_change(rows)

    def _both_sides_agree(self, job: model.Job, stored: models.Job, rows: list[Execution]) -> None:
        assert stored.status == job.status
        assert stored.next_run_at == job.next_run_at
        assert (stored.slot_count, stored.run_count) == (job.slot_count, job.run_count)
        assert stored.failure_streak == job.failure_streak
        assert (stored.deleted_at, stored.paused_until) == (job.deleted_at, job.paused_until)
        assert [_shown(row) for row in rows] == [_expected(row) for row in job.rows]

    def _limits_hold(self, pair: Pair, stored: models.Job, rows: list[Execution]) -> None:
        assert stored.revision >= pair.revision
        pair.revision = stored.revision
        assert stored.max_runs is None or stored.slot_count <= stored.max_runs
        assert all(row.attempt <= pair.most_attempts + model.RESCUES for row in rows)
        under_way = [row for row in rows if row.status in model.UNDER_WAY and row.cause != "manual"]
        assert len(under_way) <= 1 or pair.ever_allowed_overlap

    def _no_slot_has_two_rows(self, spans: list[Span]) -> None:
        assert all(one[1] < other[0] for one, other in pairwise(spans))

    def _every_due_slot_has_a_row(self, pair: Pair, job: models.Job, spans: list[Span]) -> None:
        for slot in pair.owed:
            assert _is_open(job, slot) or any(first <= slot <= last for first, last in spans), slot

    def _final_rows_do_not_change(self, rows: list[Execution]) -> None:
        shown = {row.pk: _shown(row) | {"reason": row.reason} for row in rows}
        for row_id, before in self.final.items():
            # A clock that was ahead may have recorded future slots as missed.
            is_ahead = before["status"] in model.NOT_RUN and (before["last"] or before["first"]) > TIME.now
            assert is_ahead or shown[row_id] == before
        self.final = {row.pk: shown[row.pk] for row in rows if row.status in Execution.FINAL}

    # Helpers

    @property
    def _models(self) -> list[model.Job]:
        return [pair.model for pair in self.pairs]

    def _pairs_where(self, condition: Callable[[model.Job], bool]) -> list[Pair]:
        return [pair for pair in self.pairs if condition(pair.model)]

    def _pick(self, which: int, condition: Callable[[model.Job], bool] = lambda job: True) -> Pair:
        pairs = self._pairs_where(condition)
        return pairs[which % len(pairs)]

    def _ask(self, is_accepted: bool, verb: Callable[[], Result[Any]]) -> Any:
        """Call both sides, and check that they agree and that a refusal changes nothing."""
        before = None if is_accepted else _everything()
        result = verb()
        assert isinstance(result, Ok) is is_accepted, result
        assert is_accepted or _everything() == before
        return result


def _shown(row: Execution) -> dict[str, Any]:
    return {
        "first": row.scheduled_for,
        "last": row.last_slot,
        "count": row.slots,
        "cause": row.cause,
        "status": row.status,
        "attempt": row.attempt,
        "available_at": row.available_at,
        "lease_until": row.lease_until,
        "cluster": row.cluster_id if row.status in model.UNDER_WAY else None,
    }


def _expected(row: model.Row) -> dict[str, Any]:
    return {
        "first": row.slots[0],
        "last": row.slots[-1] if len(row.slots) > 1 else None,
        "count": len(row.slots),
        "cause": row.cause,
        "status": row.status,
        "attempt": row.attempt,
        "available_at": row.available_at,
        "lease_until": row.lease_until,
        "cluster": row.cluster if row.status in model.UNDER_WAY else None,
    }


def _is_open(job: models.Job, slot: datetime) -> bool:
    """Return whether a slot needs no row yet, or never will because its job has used all its runs."""
    if job.max_runs is not None and job.slot_count >= job.max_runs:
        return True
    if job.deleted_at:
        return False
    if job.next_run_at:
        return slot >= job.next_run_at
    return bool(job.status == "paused" and job.paused_at and slot > job.paused_at)


def _everything() -> list[Any]:
    return [
        list(rows.order_by("pk").values()) for rows in (models.Job.objects, Execution.objects, Event.objects)
    ]


def ticking() -> SimpleNamespace:
    """Return a replacement for the module `time`, which limits the duration of a step."""
    return SimpleNamespace(monotonic=lambda: TIME.passed)
