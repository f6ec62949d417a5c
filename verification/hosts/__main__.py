"""Several hosts on one PostgreSQL: throughput, shares, doubles, and a host that is cut off and comes back."""

import argparse
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from operator import sub

import psutil

from verification.hosts.lab import TASK, Host, Lab, lab, make_jobs, spread, wait_until_settled

COUNTS = (1, 2, 4)
# Jobs that are due at once: a few, which one host alone could claim in one go, and many; and jobs at an even rate.
SMALL_BURST, BURST = 1000, 20_000
RATE, RATE_SECONDS = 200.0, 15.0
# A host is cut off for longer than a lease and a heartbeat last: before, away and after, in seconds, and the task's length.
BEFORE, AWAY, AFTER = 8.0, 20.0, 15.0
TASK_SECONDS = 0.5
LEAD = timedelta(seconds=3)
# How much less than the busiest host the idlest one may do.
SHARE = 0.3
# A lease, the next sweep, and a start on a busy machine.
TAKEN_OVER_WITHIN = 20.0
# Seconds for one phase.
LONGEST = 400


class Report:
    """What was measured, printed as `name value unit`, and what is wrong."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def show(self, name: str, value: float, unit: str) -> None:
        print(f"{name} {value:.4g} {unit}", flush=True)

    def check(self, condition: bool, problem: str) -> None:
        if not condition:
            self.problems.append(problem)

    @contextmanager
    def measuring_cpu(self, name: str, lab: Lab, runs: int) -> Iterator[None]:
        """Show how busy the machine was inside the block, and what a run cost the database and the clusters."""
        psutil.cpu_percent()
        before = lab.cpu_seconds()
        yield
        after = lab.cpu_seconds()
        self.show(f"{name}_cpu", psutil.cpu_percent(), "%")
        for who, used in zip(("database", "clusters"), map(sub, after, before), strict=True):
            self.show(f"{name}_{who}_cpu_per_run", 1000 * used / runs, "ms")

    def share(self, name: str, hosts: list[Host], ran_on: Iterable[str]) -> None:
        """Show how many runs each host had, and check that the hosts had about the same."""
        counts = Counter(ran_on)
        shares = [counts[host.name] for host in hosts]
        unevenness = 1 - min(shares) / max(max(shares), 1)
        print(f"# {name}: {' '.join(map(str, shares))}")
        self.show(f"{name}_uneven", 100 * unevenness, "%")
        self.check(unevenness <= SHARE, f"{name}: {shares}")

    def exactly_once(self, name: str, lab: Lab, count: int, *, may_repeat: Iterable[str] = ()) -> None:
        """Check the ledger and the task's own record: every slot succeeded, and ran once, except `may_repeat`."""
        from schedules.models import Execution

        ledger = Execution.objects.filter(task=TASK).order_by()
        rows = Counter(ledger.values_list("job", flat=True))
        succeeded = ledger.filter(status="succeeded").count()
        calls = Counter(call.key for call in lab.records())
        repeated = {key for key, number in calls.items() if number > 1}
        self.show(f"{name}_lost", count - succeeded, "slots")
        self.show(
            f"{name}_doubled", len(repeated - set(may_repeat)) + len(rows - Counter(set(rows))), "slots"
        )
        if repeated:
            self.show(f"{name}_repeated_with_a_new_attempt", len(repeated & set(may_repeat)), "slots")
        self.check(
            len(rows) == succeeded == len(calls) == count, f"{name}: {len(rows)} rows, {succeeded} succeeded"
        )
        self.check(repeated <= set(may_repeat), f"{name}: doubles {sorted(repeated - set(may_repeat))[:5]}")
        self.check(sum(rows.values()) == count, f"{name}: {sum(rows.values())} rows of {count} slots")


def throughput(lab: Lab, report: Report) -> None:
    """Settle jobs that are due at once, with more and more hosts."""
    from schedules.models import Execution

    for count in COUNTS:
        name = f"burst_{count}_hosts"
        lab.forget()
        with lab.clusters(count) as hosts:
            if count > 1:
                _settle_at_once(SMALL_BURST)
                report.share(f"small_{name}_share", hosts, (call.host for call in lab.records()))
            seen = len(lab.records())
            due = _make_burst(BURST)
            _sleep_until(due)
            with report.measuring_cpu(name, lab, BURST):
                wait_until_settled(90)
            ends = (
                Execution.objects.filter(task=TASK)
                .order_by("-finished_at")
                .values_list("finished_at", flat=True)
            )
            report.show(name, BURST / (ends[0] - due).total_seconds(), "runs/s")
            calls = lab.records()
            if count > 1:
                report.share(f"{name}_share", hosts, (call.host for call in calls[seen:]))
        report.exactly_once(name, lab, BURST + (SMALL_BURST if count > 1 else 0))


def _settle_at_once(count: int) -> None:
    due = _make_burst(count)
    _sleep_until(due)
    wait_until_settled(60)


def _make_burst(count: int) -> datetime:
    from schedules import clock

    due = clock.now() + LEAD + timedelta(seconds=count / 4000)
    make_jobs([due] * count)
    return due


def even_rate(lab: Lab, report: Report) -> None:
    """Run jobs at an even rate that one host alone could carry."""
    from schedules import clock

    for count in COUNTS[1:]:
        name = f"rate_{count}_hosts"
        lab.forget()
        with lab.clusters(count) as hosts:
            moments = spread(clock.now() + LEAD, RATE, RATE_SECONDS)
            make_jobs(moments)
            _sleep_until(moments[0])
            with report.measuring_cpu(name, lab, len(moments)):
                wait_until_settled(RATE_SECONDS + 30)
            report.show(f"{name}_connections", lab.connections() / count, "per host")
            report.share(f"{name}_share", hosts, (call.host for call in lab.records()))
            _lateness(report, name, lab)
        report.exactly_once(name, lab, len(moments))


def cut_off(lab: Lab, report: Report) -> None:
    """Cut one host of four off while all of them work, and bring it back."""
    from schedules import clock
    from schedules.models import Execution

    lab.forget()
    with lab.clusters(COUNTS[-1]) as hosts:
        victim = hosts[-1]
        assert victim.process
        begin = clock.now() + LEAD
        moments = spread(begin, RATE, BEFORE + AWAY + AFTER)
        make_jobs(moments, seconds=TASK_SECONDS)
        _sleep_until(begin + timedelta(seconds=BEFORE))
        victim.cut()
        cut_at = clock.now()
        held = Execution.objects.held().filter(cluster__pid=victim.process.pid)
        taken = {row.pk: row.key for row in held.select_related("job")}
        _sleep_until(cut_at + timedelta(seconds=AWAY))
        victim.reconnect()
        back_at = time.time()
        wait_until_settled(AFTER + 60)
    calls = lab.records()
    report.show("cut_held", len(taken), "runs")
    report.check(bool(taken), "the host that was cut off held no run")
    starts = Execution.objects.filter(pk__in=taken).values_list("started_at", flat=True)
    taken_over = max((at - cut_at).total_seconds() for at in starts if at)
    report.show("cut_taken_over_within", taken_over, "s")
    report.check(taken_over < TAKEN_OVER_WITHIN, f"cut: taken over after {taken_over:.1f} s")
    first = min(
        (call.at for call in calls if call.host == victim.name and call.at > back_at), default=float("inf")
    )
    report.show("cut_works_again_after", first - back_at, "s")
    settled_at = first + 2
    report.share("cut_share_before", hosts, (call.host for call in calls if call.at < cut_at.timestamp()))
    report.share("cut_share_after", hosts, (call.host for call in calls if call.at > settled_at))
    report.exactly_once("cut", lab, len(moments), may_repeat=taken.values())
    _lateness(report, "cut_of_others", lab, without=set(taken.values()))


PHASES: dict[str, Callable[[Lab, Report], None]] = {
    "burst": throughput,
    "rate": even_rate,
    "cut": cut_off,
}


def _lateness(report: Report, name: str, lab: Lab, without: Iterable[str] = ()) -> None:
    """Show how late the first call of each slot was, by the task's own record."""
    late: dict[str, float] = {}
    for call in lab.records():
        due = datetime.strptime(call.key.split("@")[1], "%Y%m%dT%H%M%S.%fZ").replace(tzinfo=UTC)
        late.setdefault(call.key, call.at - due.timestamp())
    values = sorted(value for key, value in late.items() if key not in without)
    for share, word in ((0.5, "p50"), (0.99, "p99"), (1, "max")):
        report.show(
            f"{name}_late_{word}", 1000 * values[min(len(values) - 1, int(share * len(values)))], "ms"
        )
    report.check(values[0] >= 0, f"{name}: a run started early")


def _sleep_until(moment: datetime) -> None:
    time.sleep(max(0.0, moment.timestamp() - time.time()))


def _stop(number: int, frame: object) -> None:
    sys.exit(f"stopped by signal {number}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("phases", nargs="*", metavar="phase", help=f"some of: {', '.join(PHASES)}")
    phases = parser.parse_args().phases or list(PHASES)
    if unknown := set(phases) - set(PHASES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose some of: {', '.join(PHASES)}")
    # Clean up also when it takes too long or is told to stop.
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, _stop)
    signal.alarm(LONGEST * len(phases))
    report = Report()
    with lab(COUNTS[-1]) as made:
        print(
            f"# {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}, namespaces: {bool(made.hosts[0].link)}"
        )
        for name in phases:
            if name == "cut" and not made.hosts[0].link:
                print("# no host can be cut off without network namespaces")
                continue
            PHASES[name](made, report)
    sys.exit("\n".join(report.problems) or None)


if __name__ == "__main__":
    main()
