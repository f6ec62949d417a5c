"""The campaign: python -m tests.faults.campaign --database sqlite|postgresql --seconds N --seed S."""

import argparse
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from tests.faults import report
from tests.faults.checker import Bounds, check
from tests.faults.driver import Driver
from tests.faults.faults import LONG, SHORT, kinds
from tests.faults.product import PROJECT, Product, rest
from tests.faults.records import Fault, History
from tests.faults.world import World

PATIENCE = 90.0
# What starting Python with Django takes on a quiet machine of the kind the bars are meant for.
QUIET_START = 1.5
DRAIN = 90.0


def run(options: argparse.Namespace) -> int:
    """Run one campaign and judge it; the number of violations."""
    say(f"seed {options.seed}, database {options.database}, about {options.seconds} s")
    dice = random.Random(options.seed)
    paces = [pace()]
    with World(options.database) as world:
        say(f"the product is up in {world.folder}")
        drivers = [_driver(world, options, number) for number in range(options.drivers)]
        with looked_after(world.product):
            for driver in drivers:
                driver.start()
            wait_for_jobs(world, options)
            faults = list(inject_faults(world, dice, options))
            paces.append(pace())
            ended_at = time.time()
            left = wind_down(drivers)
            drain(world)
        aftermath = world.aftermath([f"{left} jobs could not be cancelled"] if left else [])
        rows = world.rows()
        aftermath = replace(aftermath, orphans=[*aftermath.orphans, *world.product.stop()])
        log = (world.folder / "product.log").read_bytes()
    history = History(
        operations=[operation for driver in drivers for operation in driver.operations],
        rows=rows,
        deliveries=world.sink.deliveries,
        faults=faults,
        shifts=world.shifts,
        aftermath=aftermath,
        ended_at=ended_at,
    )
    return judge(history, Bounds(pace=max(paces)), options, log)


def _driver(world: World, options: argparse.Namespace, number: int) -> Driver:
    return Driver(
        number=number,
        seed=options.seed,
        jobs=options.jobs // options.drivers,
        doors=world.product.doors(),
        pages=world.product.url,
        token=world.token,
        target=world.target,
        offset=lambda: world.clock.offset,
        period=0.3,
    )


def wait_for_jobs(world: World, options: argparse.Namespace) -> None:
    """Let the first slots fall due before the first fault."""
    until = time.monotonic() + min(30, options.seconds / 6)
    while time.monotonic() < until:
        rest(0.2)


def inject_faults(world: World, dice: random.Random, options: argparse.Namespace) -> Iterator[Fault]:
    """One fault after the other in rounds of all kinds, at random moments, until the time or the rounds are over."""
    known = kinds(options.database)
    chosen = options.kinds or list(known)
    until = time.monotonic() + options.seconds
    length = SHORT if options.short else LONG
    for _ in range(options.rounds):
        for kind in dice.sample(chosen, len(chosen)):
            if time.monotonic() > until:
                return
            rest(dice.uniform(0.2, 2.5))
            began_at = time.time()
            note = known[kind](world, dice, length)
            ended_at = time.time()
            healed_at, trouble = healing(world, ended_at)
            fault = Fault(kind, began_at, ended_at, healed_at, f"({note}) {trouble}".strip())
            after = f"{fault.healing:5.1f} s" if fault.healing is not None else "  never"
            say(f"{fault.kind:<20} {ended_at - began_at:5.1f} s, healed after {after}  {fault.note}")
            yield fault


def healing(world: World, since: float) -> tuple[float | None, str]:
    """Wait until all is well; else say what is not."""
    trouble, until = "", time.monotonic() + PATIENCE
    while time.monotonic() < until:
        at = time.time()
        trouble = world.is_well(since)
        if not trouble:
            return at, ""
        rest(0.15)
    return None, trouble


@contextmanager
def looked_after(product: Product) -> Iterator[None]:
    """Play the service manager: start again whatever dies at the top."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.3):
            with suppress(OSError):
                product.keep_running()

    thread = threading.Thread(target=look, daemon=True, name="service manager")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(10)


def wind_down(drivers: Sequence[Driver]) -> int:
    for driver in drivers:
        driver.stopping.set()
    for driver in drivers:
        driver.join(60)
    return sum(driver.wind_down(60) for driver in drivers)


def drain(world: World) -> None:
    """Let what is under way end."""
    from schedules.models import Execution  # noqa: PLC0415

    until = time.monotonic() + DRAIN
    while time.monotonic() < until and Execution.objects.live().exists():
        rest(0.3)
    healing(world, time.time())


def pace() -> float:
    """How slow this machine is at the moment, against a quiet one: the best of three starts of Python and Django."""
    times = []
    for _ in range(3):
        began = time.monotonic()
        subprocess.run(
            [sys.executable, "-c", "import django.db.models, httpx2, mcp.types"], check=True, cwd=PROJECT
        )
        times.append(time.monotonic() - began)
    return max(1.0, min(times) / QUIET_START)


def judge(history: History, bounds: Bounds, options: argparse.Namespace, log: bytes = b"") -> int:
    violations = check(history, bounds)
    text = report.table(history, bounds, violations)
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{options.database}-{options.seed}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    (folder / f"{stem}.txt").write_text(f"seed {options.seed}, database {options.database}\n\n{text}")
    (folder / f"{stem}.svg").write_text(report.picture(history))
    (folder / f"{stem}.log").write_bytes(log[-5_000_000:])
    report.save(history, folder / f"{stem}.json")
    say(f"\n{text}\nreport: {folder / stem}.txt, .svg, .json, .log")
    shortfalls = [] if not options.bars else report.shortfalls(history, kinds=15, faults=10, slots=10_000)
    for words in shortfalls:
        say(f"short of the bar: {words}")
    return len(violations) + len(shortfalls)


def again(options: argparse.Namespace) -> int:
    """Judge kept records once more, with the checker as it is now."""
    return judge(report.load(Path(options.recheck)), Bounds(pace=options.pace), options)


def say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--seconds", type=int, default=3600, help="no new fault after this long")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--kinds", nargs="*", help="only these; default: all")
    parser.add_argument("--rounds", type=int, default=10**6, help="how often each kind comes at most")
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--drivers", type=int, default=2)
    parser.add_argument("--short", action="store_true", help="faults that last shorter")
    parser.add_argument(
        "--bars", action="store_true", help="fail, too, if it was not long enough to prove much"
    )
    parser.add_argument("--out", default=str(PROJECT / ".cache" / "faults"))
    parser.add_argument("--recheck", help="judge the records in this file again")
    parser.add_argument("--pace", type=float, default=1.0, help="for --recheck")
    options = parser.parse_args(arguments)
    unknown = set(options.kinds or ()) - set(kinds(options.database))
    if unknown:
        parser.error(f"--kinds: unknown {sorted(unknown)}; choose from {', '.join(kinds(options.database))}")
    # Stopped from outside, it still ends what it started.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(3))
    return 1 if (again if options.recheck else run)(options) else 0


if __name__ == "__main__":
    sys.exit(main())
