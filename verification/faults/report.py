"""Reports of a campaign: a table, and the records to examine."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

from verification.faults import repeats, stalls
from verification.faults.checker import Violation
from verification.faults.excuses import REPEATING, Bounds
from verification.faults.records import Fault, History, Row


def table(
    history: History,
    bounds: Bounds,
    violations: Sequence[Violation],
    not_tried: Mapping[str, str] | None = None,
) -> str:
    """Return the report as text."""
    by_kind: dict[str, list[Fault]] = defaultdict(list)
    for fault in history.faults:
        by_kind[fault.kind].append(fault)
    again = repeats.by_kind(history)
    lines = [
        f"{'fault':<20} {'count':>5} {'healed: p50':>12} {'max':>8} {'bar':>6}            at this pace"
        f"  {'repeats':>7} {'most':>5}  bar",
        *(_line(kind, faults, bounds, again[kind]) for kind, faults in sorted(by_kind.items())),
        *(f"{kind:<20} not tried: {reason}" for kind, reason in (not_tried or {}).items()),
    ]
    scheduled = [row for row in history.rows if row.cause != "manual"]
    late = sorted(
        row.first_started_at - row.scheduled_for for row in scheduled if row.first_started_at is not None
    )
    verdicts = Counter(delivery.verdict for delivery in history.deliveries)
    outcomes = Counter(op.outcome for op in history.operations)
    lines += [
        "",
        f"kinds {len(by_kind)}, faults {len(history.faults)}, pace of this machine {bounds.pace:.1f}",
        stalls.words(history.stalls),
        f"slots {sum(row.slots for row in scheduled)}, rows {len(history.rows)}: {_counts(history.rows)}",
        f"operations {len(history.operations)}: {_words(outcomes)}",
        f"policies asked for: {_words(_policies(history))}",
        f"deliveries {len(history.deliveries)}: {_words(verdicts)}",
        _repeats(history),
    ]
    if late:
        shares = ", ".join(f"p{share} {_share(late, share):.3f} s" for share in (50, 95, 99))
        lines.append(f"lateness, faults included: {shares}, max {late[-1]:.1f} s")
    lines += ["", f"violations {len(violations)}", *(f"  {violation}" for violation in violations[:60])]
    return "\n".join(lines) + "\n"


def _line(kind: str, faults: Sequence[Fault], bounds: Bounds, again: Counter[Fault]) -> str:
    """Return one kind of fault: its recovery against the promised and this machine's limit, and its repeats."""
    times = [fault.healing for fault in faults if fault.healing is not None]
    is_whole = len(times) == len(faults)
    shown = f"{median(times):>10.1f} s {max(times):>6.1f} s" if times else f"{'never':>12} {'never':>8}"
    met = "met    " if is_whole and max(times) <= bounds.bar(kind) else "not met"
    return (
        f"{kind:<20} {len(faults):>5} {shown} {bounds.bar(kind):>4.0f} s  {met}  {bounds.heals_within(kind):>4.0f} s"
        f"      {sum(again.values()):>9} {max(again.values(), default=0):>5}  {repeats.bar_of(kind)}"
    )


def _repeats(history: History) -> str:
    """Return how many deliveries were repeated, and the most for one fault."""
    counts = repeats.by_kind(history)
    total = sum(sum(faults.values()) for faults in counts.values())
    able = sum(fault.kind.startswith(REPEATING) for fault in history.faults)
    each = Counter({fault: count for faults in counts.values() for fault, count in faults.items()})
    most = ", ".join(f"{count} in one {fault.kind or 'quiet moment'}" for fault, count in each.most_common(3))
    return f"repeats {total} in {able} faults that can repeat what is in flight; most: {most or 'none'}"


def shortfalls(history: History, *, kinds: int, faults: int, slots: int) -> list[str]:
    """Return in which respects a campaign was too short to be a proof."""
    counts = Counter(fault.kind for fault in history.faults)
    enough = sum(count >= faults for count in counts.values())
    fallen_due = sum(row.slots for row in history.rows if row.cause != "manual")
    words = []
    if enough < kinds:
        words.append(f"{enough} kinds of fault came {faults} times or more, not {kinds}")
    if fallen_due < slots:
        words.append(f"{fallen_due} slots fell due, not {slots}")
    return words


def _policies(history: History) -> Counter[str]:
    counts: Counter[str] = Counter()
    for op in history.operations:
        if op.verb == "create" and op.outcome == "acknowledged" and op.policy:
            counts[f"overlap {op.policy.overlap}"] += 1
            counts[f"catch_up {op.policy.catch_up}"] += 1
            counts["max_runs"] += op.policy.max_runs is not None
            counts["ends_at"] += op.policy.ends_at is not None
            counts["at_most_once"] += op.policy.at_most_once
            counts["attempts"] += op.policy.attempts is not None
    return counts


def _counts(rows: Sequence[Row]) -> str:
    return _words(Counter(row.status for row in rows))


def _words(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())


def _share(ordered: Sequence[float], percent: int) -> float:
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def save(history: History, path: Path) -> None:
    """Save the records, so that they can be examined."""
    path.write_text(json.dumps(asdict(history)))
