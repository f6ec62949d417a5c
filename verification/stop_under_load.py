"""Stop under load: SIGTERM to a cluster with many executions in progress; none may be interrupted or run twice.

`python -m verification.stop_under_load` runs it on a separate SQLite database and prints one line.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections import Counter
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent


def notes(path: Path, word: str) -> Counter[str]:
    """Return how often the task of each execution recorded its begin or end, independently of the ledger."""
    lines = path.read_text().splitlines() if path.exists() else []
    return Counter(line.split()[1] for line in lines if line.startswith(word))


def stop_under_load(path: Path, coroutines: int, coroutine_seconds: float, plain_seconds: float) -> list[str]:
    """Start a cluster, load it, stop it, and return the problems."""
    from schedules import clock  # noqa: PLC0415
    from schedules.models import Execution, Job  # noqa: PLC0415
    from tests.clusters import make_due, running_cluster  # noqa: PLC0415
    from tests.waiting import PATIENCE, wait_for  # noqa: PLC0415

    until = path.with_suffix(".until")
    with running_cluster(CRONTY_WORKERS=2, CRONTY_STOP_SECONDS=30) as cluster:
        make_due(2, "tests.wait", path=str(path), until=str(until), seconds=plain_seconds)
        wait_for(lambda: len(notes(path, "begin")) == 2)
        task = {"path": str(path), "until": str(until), "seconds": coroutine_seconds}
        jobs = make_due(coroutines, "tests.await", after=3600, **task)
        # All due at the same time, however long it took to create them.
        Job.objects.filter(pk__in=[job.pk for job in jobs]).update(
            run_at=clock.now(), next_run_at=clock.now()
        )
        wait_for(lambda: len(notes(path, "begin")) == coroutines + 2)
        cluster.send_signal(signal.SIGTERM)
        # From the signal on, whatever the machine, they take as long as they were asked to.
        until.touch()
        status = cluster.wait(PATIENCE)
    begun, ended = notes(path, "begin"), notes(path, "end")
    ledger = Counter(Execution.objects.values_list("status", "attempt"))
    problems = {
        f"the leader ended with status {status}": status != 0,
        f"{len(begun - ended)} executions were cut off": bool(begun - ended),
        f"executions ran twice: {[key for key, count in begun.items() if count > 1][:3]}": max(begun.values())
        > 1,
        f"the ledger says {dict(ledger)}": ledger != {(Execution.Status.SUCCEEDED, 1): coroutines + 2},
    }
    return [problem for problem, is_so in problems.items() if is_so]


def main() -> int:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--coroutines", type=int, default=500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cronty-stop-") as folder:
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "DATABASE_URL": f"sqlite:///{folder}/cronty.sqlite3",
            "CRONTY_DATA": folder,
        }
        subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=PROJECT, check=True)
        import django  # noqa: PLC0415

        django.setup()
        began = time.monotonic()
        problems = stop_under_load(Path(folder) / "notes", options.coroutines, 3, 8)
    words = "; ".join(problems) or "0 cut off, 0 run twice"
    sys.stdout.write(
        f"stop under load on Python {sys.version.split()[0]}: {options.coroutines} coroutines and 2 plain functions"
        f" in progress, {words} ({time.monotonic() - began:.0f} s)\n"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
