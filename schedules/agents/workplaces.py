"""The temporary folder and the environment of an agent's process, whichever program it is."""

import asyncio
import os
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from django.conf import settings

from schedules.tasks.interface import Run

# Nothing else: the worker's environment contains secrets and the operator's settings.
PASSED_VARIABLES = ("PATH", "LANG")


@dataclass(frozen=True)
class Workplace:
    """The private folder of one run, and the environment of its process."""

    folder: str
    environment: dict[str, str]


@asynccontextmanager
async def workplace(run: Run, owner: str) -> AsyncIterator[Workplace]:
    """Provide an empty folder for a run of this owner, and remove it afterwards."""
    # mkdtemp makes it readable by this user only.
    folder = tempfile.mkdtemp(prefix="cronty-agent-")
    try:
        yield Workplace(folder, _environment(run, owner, folder))
    finally:
        # In a thread, because an agent may leave many files; shielded, so that even a cancelled run leaves none.
        await asyncio.shield(asyncio.to_thread(_remove, folder))


def _environment(run: Run, owner: str, folder: str) -> dict[str, str]:
    passed = {name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ}
    return passed | {
        "HOME": folder,
        "TMPDIR": folder,
        "CRONTY_EXECUTION": str(run.execution_id),
        "CRONTY_JOB": run.job_id,
        "CRONTY_OWNER": owner,
        "CRONTY_URL": settings.CRONTY_URL,
        # No access token: the operator decides in runners.toml what runs may do with Cronty.
        "CRONTY_IN_RUN": "1",
    }


def _remove(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if not os.path.lexists(folder):
        return
    # Some programs leave read-only folders.
    with suppress(OSError):
        os.chmod(folder, stat.S_IRWXU)
        for parent, names, _ in os.walk(folder):
            for path in (os.path.join(parent, name) for name in names):
                if not os.path.islink(path):
                    os.chmod(path, stat.S_IRWXU)
    shutil.rmtree(folder, ignore_errors=True)
