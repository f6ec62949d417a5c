"""Planted bugs: `python -m verification.mutants` plants one at a time in a copy of the checkout and runs a fault campaign.

A campaign that reports no violation on a mutant proves little about the product. The unmutated copy runs, too, and must
pass. Bugs that a campaign meets too rarely are for the tests of the engine.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
NOT_COPIED = shutil.ignore_patterns(".*", "data", "node_modules", "__pycache__", "*.sqlite3*")
# How many mutants the campaign must catch.
BAR = 16
SEED = 12


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug: exact texts of one file, each found exactly once, and what replaces them."""

    name: str
    path: str
    replacements: Sequence[tuple[str, str]]
    tests: str = ""
    """The tests that have to fail; without them, a campaign has to report a violation."""
    kinds: Sequence[str] = ()
    """The only kinds of faults to inject, if not all brisk ones."""

    def plant(self, root: Path) -> None:
        file = root / self.path
        text = file.read_text()
        for old, new in self.replacements:
            if text.count(old) != 1:
                raise LookupError(f"{self.name}: {self.path} has {text.count(old)} times, not once: {old}")
            text = text.replace(old, new)
        compile(text, self.path, "exec")
        file.write_text(text)


MUTANTS = (
    Mutant(
        "settle without still-mine",
        "schedules/engine/settle.py",
        [
            (
                "[*lock_running(cluster_id, attempts)]",
                "list(Execution.objects.filter(pk__in=list(attempts))"
                '.values_list("pk", "attempt", "cause", "job__status", "job__deleted_at"))',
            ),
            ("if attempts[pk] == attempt", "if pk in attempts"),
        ],
    ),
    Mutant(
        "advance in a second transaction",
        "schedules/engine/claim.py",
        [
            (
                "_advance([item for item in plans.values() if not item.broken], live)",
                "transaction.on_commit("
                "lambda: _advance([item for item in plans.values() if not item.broken], live))",
            )
        ],
    ),
    Mutant("no sweep", "schedules/worker/upkeep.py", [("engine.sweep(now)", "None")]),
    Mutant(
        "outcomes dropped on write error",
        "schedules/worker/outcomes.py",
        [("deferred = [group]", "deferred = []")],
    ),
    Mutant(
        "max_runs + 1",
        "schedules/engine/plan.py",
        [("job.max_runs - job.slot_count", "job.max_runs + 1 - job.slot_count")],
    ),
    Mutant(
        "everybody's leases renewed",
        "schedules/engine/settle.py",
        [
            (
                "running = Execution.objects.filter(status=Status.RUNNING, cluster_id=cluster_id)",
                "running = Execution.objects.filter(status=Status.RUNNING)",
            ),
            ("rows = running.filter(pk__in=ids)", "rows = running"),
        ],
    ),
    Mutant(
        "start that ignores whose claim it is",
        "schedules/engine/sql/runs.py",
        [
            (
                "AND status = 'claimed' AND cluster_id = %s AND attempt = %s",
                "AND status = 'claimed' AND (cluster_id = %s OR 1 = 1) AND attempt = %s",
            ),
        ],
    ),
    Mutant(
        "stop that leaves running rows",
        "schedules/worker/leader.py",
        [("engine.hand_back(context.cluster_id, clock.now(), also_running=True)", "None")],
    ),
    Mutant(
        "key that changes with the attempt",
        "schedules/engine/sql/runs.py",
        [
            (
                "return slot_key(self.job_public_id, self.scheduled_for, self.cause)",
                'return f"{slot_key(self.job_public_id, self.scheduled_for, self.cause)}-{self.attempt}"',
            )
        ],
    ),
    Mutant(
        "claim one second early",
        "schedules/engine/claim.py",
        [("now,\n                    room,", "now + timedelta(seconds=1),\n                    room,")],
    ),
    Mutant(
        "rescue four seconds before the lease ends",
        "schedules/engine/rescue.py",
        [("Execution.objects.abandoned(now)", "Execution.objects.abandoned(now + timedelta(seconds=4))")],
        tests="tests/engine/test_rescue.py",
    ),
    Mutant(
        "rescue that moves its job to the next slot",
        "schedules/engine/rescue.py",
        [
            (
                "    for why_lost, ended in lost.items():\n",
                "    for row in again:\n"
                "        if row.job and row.job.next_run_at and row.job.every:\n"
                "            Job.objects.filter(pk=row.job_id).update(next_run_at=row.job.next_run_at + row.job.every)\n"
                "    for why_lost, ended in lost.items():\n",
            )
        ],
        tests="tests/engine/test_rescue.py",
    ),
    Mutant(
        "at most once only in the first attempt",
        "schedules/engine/rescue.py",
        [("elif job.at_most_once:", "elif job.at_most_once and row.attempt == 1:")],
        tests="tests/engine/test_rescue.py",
    ),
    Mutant(
        "grace time that goes on while Cronty is away",
        "schedules/engine/pings.py",
        [("away = absences()", "away = []")],
        kinds=["kill-all"],
    ),
    Mutant(
        "deliveries put off at the price of an attempt",
        "schedules/engine/queued_runs.py",
        [
            (
                'update(available_at=None, reason="Waiting for earlier events.")',
                'update(available_at=now + timedelta(minutes=5), attempt=F("attempt") + 1)',
            ),
        ],
        kinds=["receiver-deaf"],
    ),
    Mutant(
        "twelve requests at once to one receiver",
        "schedules/engine/event_deliveries.py",
        [("AT_ONCE = 4", "AT_ONCE = 12")],
        kinds=["receiver-deaf"],
    ),
    Mutant(
        "end of a command that is written to disk after the last try",
        "cronty_site/terminal/elsewhere/executing.py",
        [
            (
                "        reporter.keep(Report(name, rid, time.time(), result.code, result.output, create))",
                "        reporter._unkept.append(\n"
                '            (Report(name, rid, time.time(), result.code, result.output, create), "late")\n        )',
            )
        ],
        kinds=["kill-all"],
    ),
)
UNCHANGED = Mutant("(unchanged)", "manage.py", ())


@dataclass(frozen=True, slots=True)
class Result:
    mutant: Mutant
    is_caught: bool
    seconds: float
    words: str


@contextmanager
def copy_of_checkout() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="cronty-mutant-") as folder:
        root = Path(folder) / "cronty"
        shutil.copytree(PROJECT, root, ignore=NOT_COPIED)
        yield root


def try_mutant(mutant: Mutant, options: argparse.Namespace) -> Result:
    """Run its tests, or the campaign until the first violation, on a copy with this bug."""
    with copy_of_checkout() as root:
        mutant.plant(root)
        began = time.monotonic()
        if mutant.tests:
            is_caught, words = run_tests(mutant, root)
            return Result(mutant, is_caught, time.monotonic() - began, words)
        out = Path(options.out) / re.sub(r"\W+", "-", mutant.name).strip("-")
        campaign = subprocess.Popen(
            [
                *(sys.executable, "-m", "verification.faults.campaign", "--short"),
                "--until-violation",
                *("--database", options.database, "--seed", str(options.seed), "--jobs", str(options.jobs)),
                *(("--kinds", *mutant.kinds) if mutant.kinds else ("--brisk",)),
                *("--seconds", str(options.seconds), "--rounds", "3", "--drivers", "1", "--out", str(out)),
            ],
            cwd=root,
            env={name: value for name, value in os.environ.items() if not name.startswith("CRONTY_")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = campaign.communicate(timeout=options.seconds + 300)
        except subprocess.TimeoutExpired:
            campaign.send_signal(signal.SIGTERM)
            output, _ = campaign.communicate()
        out.mkdir(parents=True, exist_ok=True)
        (out / "output.txt").write_text(output)
        found = re.search(r"^violations (\d+)\n(.*)", output, re.MULTILINE)
        # A campaign that ended without a verdict has caught nothing.
        is_caught = bool(found and int(found[1]))
        words = found[2].strip() if found and is_caught else "no violation" if found else f"no verdict: {out}"
        return Result(mutant, is_caught, time.monotonic() - began, words)


def run_tests(mutant: Mutant, root: Path) -> tuple[bool, str]:
    """Return whether a test fails on this copy, and its name."""
    command = [sys.executable, "-m", "pytest", mutant.tests, "-q", "-x", "-n", "2", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        command,
        cwd=root,
        env={name: value for name, value in os.environ.items() if not name.startswith("CRONTY_")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    failed = re.search(r"^FAILED (\S+)", ran.stdout, re.MULTILINE)
    if failed:
        return True, failed[1]
    return False, "no test failed" if ran.returncode == 0 else f"no verdict: {ran.stdout[-200:]}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="postgresql")
    parser.add_argument("--quick", action="store_true", help="about ten minutes on two free cores")
    parser.add_argument("--seconds", type=int, help="no new fault after this long")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--only", nargs="*", help="parts of names")
    parser.add_argument("--out", default=str(PROJECT / ".cache" / "mutants"))
    options = parser.parse_args(arguments)
    options.seconds = options.seconds or (80 if options.quick else 240)
    chosen = [
        one
        for one in (*MUTANTS, UNCHANGED)
        if not options.only or any(part in one.name for part in options.only)
    ]
    results = []
    with ThreadPoolExecutor(options.parallel) as pool:
        for done in as_completed([pool.submit(try_mutant, mutant, options) for mutant in chosen]):
            result = done.result()
            results.append(result)
            verdict = "caught" if result.is_caught else "missed"
            if result.mutant is UNCHANGED:
                verdict = "wrong" if result.is_caught else "passed"
            say(f"{result.mutant.name:<38} {verdict:<7} {result.seconds:4.0f} s  {result.words[:160]}")
    planted = [result for result in results if result.mutant is not UNCHANGED]
    caught = sum(result.is_caught for result in planted)
    is_sound = not any(result.is_caught for result in results if result.mutant is UNCHANGED)
    say(f"{caught} of {len(planted)} caught{'' if is_sound else ', but the unchanged copy failed, too'}")
    return 0 if is_sound and caught >= min(BAR, len(planted)) else 1


def say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
