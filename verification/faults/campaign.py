"""Fault campaign: `python -m verification.faults.campaign --database sqlite|postgresql|both --rounds N --seconds N --seed S`."""

import argparse
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

import psutil
from django.db import Error

from verification.faults import report, stalls
from verification.faults.checker import check
from verification.faults.driver import Driver
from verification.faults.excuses import Bounds
from verification.faults.faults import BESIDE_CLUSTERS, LENGTHY, LONG, SHORT, kinds, unavailable
from verification.faults.product import LEASE, PROJECT, TOKEN_USER, Product, rest
from verification.faults.records import Aftermath, Fault, History
from verification.faults.wings import Wings
from verification.faults.world import World

DATABASES = ("sqlite", "postgresql")
PATIENCE = 90.0
# Seconds that a quiet machine takes to start Python with Django.
QUIET_START = 1.5
DRAIN = 90.0
# Seconds within which the probe of a healthy cluster returns.
ROUND = 4.0
# Rules that hold only after all runs have ended.
FINAL_RULES = {"unfinished", "aftermath"}


# Set by the first signal: the current fault is undone, and the records so far are checked.
over = threading.Event()
_stopped_at = 0.0
# Some senders signal the process and then its group: within this time both count as one signal.
SAME_SIGNAL = 3.0


def run(options: argparse.Namespace) -> int:
    """Run one campaign, check its records, and return the number of violations."""
    say(f"seed {options.seed}, database {options.database}, at most {options.seconds} s of faults")
    dice = random.Random(options.seed)
    paces = [pace(options)]
    faults: list[Fault] = []
    with World(options.database, options.lease) as world:
        world.pace = paces[0]
        say(f"the product is up in {world.folder}")
        world.wings = Wings(world)
        world.wings.begin()
        drivers = [_driver(world, options, number) for number in range(options.drivers)]
        with restarting_dead_processes(world.product), stalls.watching(world.folder):
            for thread in (*drivers, world.wings):
                thread.start()
            wait_for_jobs(options)
            for fault in inject_faults(world, dice, options):
                faults.append(fault)
                if options.until_violation and (found := violating(world, drivers, faults, paces, options)):
                    return judge(
                        found, bounds_of(max(paces), options), options, world.log(), exclude=FINAL_RULES
                    )
            paces.append(pace(options))
            ended_at = time.time()
            complaints = wind_down(drivers)
            drain(world)
            complaints += world.wings.end()
        aftermath = world.aftermath(complaints)
        orphans = world.product.stop()
        aftermath = replace(aftermath, orphans=orphans, held_after_stop=world.held_by())
        history, log = records(world, drivers, faults, aftermath, ended_at), world.log()
        history = judged_wings(world, history, bounds_of(max(paces), options), is_over=True)
        say(world.wings.words())
    return judge(history, bounds_of(max(paces), options), options, log)


def records(
    world: World, drivers: Sequence[Driver], faults: Sequence[Fault], aftermath: Aftermath, ended_at: float
) -> History:
    """Collect what has been recorded until now."""
    with ExitStack() as stack:
        for driver in drivers:
            stack.enter_context(driver.between_operations)
        read_at = time.time()
        rows, jobs = world.snapshot()
        succeeded = {row.id for row in rows if row.status == "succeeded"}
        return History(
            operations=[operation for driver in drivers for operation in driver.operations],
            rows=rows,
            jobs=jobs,
            # Not the deliveries of runs that were started after their rows were read.
            deliveries=[
                one for one in list(world.sink.deliveries) if one.at < read_at or one.execution in succeeded
            ],
            faults=list(faults),
            shifts=list(world.shifts),
            stalls=stalls.stalls_in(world.folder),
            aftermath=aftermath,
            ended_at=ended_at,
        )


def judged_wings(world: World, history: History, bounds: Bounds, *, is_over: bool = False) -> History:
    assert world.wings
    return replace(history, wings=world.wings.problems(history, bounds, is_over=is_over))


def violating(
    world: World,
    drivers: Sequence[Driver],
    faults: Sequence[Fault],
    paces: list[float],
    options: argparse.Namespace,
) -> History | None:
    """Return the records until now if they violate a rule; if so, look again, as the machine may have become slow."""
    for is_second in (False, True):
        if is_second:
            paces.append(pace(options))
        # Slots that fell due after the recovery may not have been claimed yet.
        history = records(world, drivers, faults, Aftermath(), (faults[-1].healed_at or time.time()) - 2)
        bounds = bounds_of(max(paces), options)
        history = judged_wings(world, history, bounds)
        if not check(history, bounds, exclude=FINAL_RULES):
            return None
    return history


def _driver(world: World, options: argparse.Namespace, number: int) -> Driver:
    return Driver(
        number=number,
        seed=options.seed,
        jobs=options.jobs // options.drivers,
        mcp_urls=world.product.mcp_urls(),
        pages=world.product.url,
        token=world.token,
        target=world.target,
        offset=lambda: world.clock.offset,
        period=0.3,
    )


def wait_for_jobs(options: argparse.Namespace) -> None:
    """Let the first slots fall due before the first fault."""
    over.wait(min(20, options.seconds / 6))


def inject_faults(world: World, dice: random.Random, options: argparse.Namespace) -> Iterator[Fault]:
    """Inject all kinds of faults in rounds, one at a time and at random moments, until the time or the rounds are over."""
    not_tried = unavailable(options.database)
    chosen = [kind for kind in options.kinds or kinds(options.database) if kind not in not_tried]
    if options.brisk:
        chosen = [kind for kind in chosen if not kind.startswith(LENGTHY)]
    for kind, reason in not_tried.items():
        say(f"{kind:<20} not tried: {reason}")
    until = time.monotonic() + options.seconds
    for _ in range(options.rounds):
        for kind in dice.sample(chosen, len(chosen)):
            if time.monotonic() > until or over.wait(dice.uniform(0.1, 0.6)):
                say("cut short: this is judged as it is")
                return
            fault = inject(world, dice, kind, options)
            after = f"{fault.healing:5.1f} s" if fault.healing is not None else "  never"
            lasted = fault.ended_at - fault.began_at
            say(f"{fault.kind:<20} {lasted:5.1f} s, healed after {after}  {fault.note}")
            yield fault


def inject(world: World, dice: random.Random, kind: str, options: argparse.Namespace) -> Fault:
    """Inject one fault, undo it, and wait until the product has recovered."""
    began_at = time.time()
    world.forget_fault()
    try:
        note = kinds(options.database)[kind](world, dice, SHORT if options.short else LONG)
    except (OSError, RuntimeError, psutil.Error, Error) as error:
        # Faults hit the harness, too: the process it wants to kill may have just ended.
        note = f"cut short: {error!r}"
        world.undo_everything()
    ended_at = time.time()
    # Probes return every few seconds; if the fault spared the clusters, the last one counts.
    since = began_at - ROUND if kind.startswith(BESIDE_CLUSTERS) else ended_at
    healed_at, trouble = healing(world, since, 40 if options.until_violation else PATIENCE)
    return Fault(
        kind,
        began_at,
        ended_at,
        healed_at,
        f"({note}) {trouble}".strip(),
        struck_at=world.struck_at or None,
        job_id=world.struck_job,
        host=world.struck_host,
        problem=world.problem,
    )


def healing(world: World, since: float, patience: float = PATIENCE) -> tuple[float | None, str]:
    """Wait until the product has recovered; return when, or what is still wrong."""
    trouble, until = "", time.monotonic() + patience
    while time.monotonic() < until:
        at = time.time()
        trouble = world.remaining_problem(since)
        if not trouble:
            return at, ""
        rest(0.15)
    return None, trouble


@contextmanager
def restarting_dead_processes(product: Product) -> Iterator[None]:
    """Act as the service manager: restart top-level processes that die."""
    gone = threading.Event()

    def look() -> None:
        while not gone.wait(0.3):
            with suppress(OSError):
                product.keep_running()

    thread = threading.Thread(target=look, daemon=True, name="service manager")
    thread.start()
    try:
        yield
    finally:
        gone.set()
        thread.join(10)


def wind_down(drivers: Sequence[Driver]) -> list[str]:
    """Stop the drivers, cancel their jobs, and return the problems."""
    for driver in drivers:
        driver.stopping.set()
    for driver in drivers:
        driver.join(60)
    left = sum(driver.wind_down(60) for driver in drivers)
    complaints = [driver.trouble for driver in drivers if driver.trouble]
    return [*complaints, f"{left} jobs could not be cancelled"] if left else complaints


def drain(world: World) -> None:
    """Wait until the runs in progress have ended."""
    from schedules.models import Execution  # noqa: PLC0415

    until = time.monotonic() + DRAIN
    live = Execution.objects.live().filter(job__owner__username=TOKEN_USER)
    while time.monotonic() < until and live.exists():
        rest(0.3)
    healing(world, time.time())


def pace(options: argparse.Namespace) -> float:
    """Return how much slower this machine is than a quiet one: the best of some starts of Python and Django."""
    times = []
    for _ in range(1 if options.short else 3):
        began = time.monotonic()
        subprocess.run(
            [sys.executable, "-c", "import django.db.models, httpx2, mcp.types"], check=True, cwd=PROJECT
        )
        times.append(time.monotonic() - began)
    return max(1.0, min(times) / QUIET_START)


def bounds_of(slowness: float, options: argparse.Namespace) -> Bounds:
    return Bounds(slowness, lease=options.lease)


def judge(
    history: History,
    bounds: Bounds,
    options: argparse.Namespace,
    log: bytes = b"",
    *,
    exclude: Collection[str] = (),
) -> int:
    violations = check(history, bounds, exclude=exclude)
    text = report.table(history, bounds, violations, unavailable(options.database))
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{options.database}-{options.seed}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    (folder / f"{stem}.txt").write_text(f"seed {options.seed}, database {options.database}\n\n{text}")
    (folder / f"{stem}.log").write_bytes(log[-5_000_000:])
    report.save(history, folder / f"{stem}.json")
    say(f"\n{text}\nreport: {folder / stem}.txt, .json, .log")
    shortfalls = [] if not options.bars else report.shortfalls(history, kinds=15, faults=10, slots=10_000)
    for words in shortfalls:
        say(f"short of the bar: {words}")
    return len(violations) + len(shortfalls)


def run_both(arguments: Sequence[str], options: argparse.Namespace) -> int:
    """Run a campaign on each database at the same time, and return how many failed."""
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    running = {}
    for database in DATABASES:
        command = [sys.executable, "-m", "verification.faults.campaign", *arguments, "--database", database]
        with (folder / f"{database}.out").open("wb") as out:
            running[database] = subprocess.Popen(
                [*command, "--seed", str(options.seed)],
                cwd=PROJECT,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        say(f"{database}: follow {folder / database}.out")
    is_told = False
    while any(process.poll() is None for process in running.values()):
        if over.wait(1) and not is_told:
            is_told = True
            for process in running.values():
                process.send_signal(signal.SIGTERM)
        rest(0.2)
    for database in running:
        say(f"\n{database}\n{(folder / database).with_suffix('.out').read_text()}")
    return sum(process.returncode != 0 for process in running.values())


def stop(number: int, frame: FrameType | None) -> None:
    """Finish with a report at the first signal; exit at a later one."""
    global _stopped_at
    if over.is_set() and time.monotonic() > _stopped_at + SAME_SIGNAL:
        sys.exit(3)
    _stopped_at = _stopped_at if over.is_set() else time.monotonic()
    over.set()


def say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=[*DATABASES, "both"], default="sqlite", help="both: at once")
    parser.add_argument("--seconds", type=int, default=3600, help="no new fault after this long")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--kinds", nargs="*", help="only these; default: all")
    parser.add_argument("--rounds", type=int, default=10**6, help="how often each kind comes at most")
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--drivers", type=int, default=2)
    parser.add_argument(
        "--lease", type=int, default=LEASE, help="seconds; the default is shorter than shipped"
    )
    parser.add_argument("--short", action="store_true", help="shorter faults, and the pace is measured once")
    parser.add_argument(
        "--bars", action="store_true", help="fail, too, if it was not long enough to prove much"
    )
    parser.add_argument("--brisk", action="store_true", help="without the kinds that take half a minute each")
    parser.add_argument(
        "--until-violation", action="store_true", help="check after every fault, and end early"
    )
    parser.add_argument("--out", default=str(PROJECT / ".cache" / "faults"))
    options = parser.parse_args(arguments)
    unknown = set(options.kinds or ()) - set(kinds(options.database))
    if unknown:
        parser.error(f"--kinds: unknown {sorted(unknown)}; choose from {', '.join(kinds(options.database))}")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    if options.database == "both":
        return 1 if run_both(sys.argv[1:] if arguments is None else arguments, options) else 0
    return 1 if run(options) else 0


if __name__ == "__main__":
    sys.exit(main())
