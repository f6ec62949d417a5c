"""The check of a runner: it is started as for a run, with a prompt that changes nothing."""

import asyncio
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

from schedules import clock
from schedules.agents.adapters import version_note
from schedules.agents.definitions import Runner
from schedules.agents.reports import Report
from schedules.agents.runs import AgentSession
from schedules.agents.stops import stop_in_force
from schedules.agents.verdicts import Judged, Verdict
from schedules.agents.workplaces import workplace
from schedules.models import AgentRun
from schedules.tasks.interface import Final, RetryLater, Run
from schedules.worker.calls import secrets_of

PROMPT = (
    "This is a check of the connection. Use no tools and change nothing. Answer with the single word: ready"
)
LONGEST = timedelta(minutes=5)


class Checked(NamedTuple):
    """How a check ended."""

    judged: Judged
    report: Report
    seconds: float
    note: str
    """A warning about the version of the program, or an empty text."""

    @property
    def is_good(self) -> bool:
        return self.judged.verdict in AgentRun.GOOD


def check_runner(name: str, runner: Runner, user: Any, longest: timedelta = LONGEST) -> Checked:
    """Start a runner for a person, outside of the ledger and its limits, and tell how it ended."""
    if stop := stop_in_force(user.pk):
        return Checked(Judged(Verdict.FAILED, stop.sentence), Report(), 0.0, "")
    if runner.kind == "inbox":
        return Checked(Judged(Verdict.DONE, "Prompts wait in the inbox for an agent."), Report(), 0.0, "")
    return asyncio.run(_check(name, runner, user, longest))


async def _check(name: str, runner: Runner, user: Any, longest: timedelta) -> Checked:
    run = Run.without_job(clock.now(), user.pk, longest.total_seconds())
    session = AgentSession(name, runner, replace(run, secrets=secrets_of(user.pk).find))
    begin = time.monotonic()
    try:
        await session.begin(PROMPT)
        if runner.kind == "webhook":
            judged = await session.send()
        else:
            async with workplace(run, user.get_username()) as place:
                judged = await session.work(place)
    except (Final, RetryLater) as error:
        judged = Judged(Verdict.FAILED, str(error))
    report = session.report
    return Checked(judged, report, time.monotonic() - begin, version_note(runner.kind, report.version))
