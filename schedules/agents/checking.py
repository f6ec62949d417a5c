"""The check of a runner: start it as for a run, with a prompt that asks it to change nothing."""

import asyncio
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

from schedules import clock
from schedules.agents.adapters import version_note
from schedules.agents.choice import stop_in_force
from schedules.agents.definitions import Runner
from schedules.agents.reports import Report
from schedules.agents.runs import AgentSession
from schedules.agents.verdicts import Judgement, Verdict
from schedules.agents.workplaces import workplace
from schedules.models import AgentRun
from schedules.tasks.interface import Final, RetryLater, Run
from schedules.worker.secret_access import SecretAccess

PROMPT = (
    "This is a check of the connection. Use no tools and change nothing. Answer with the single word: ready"
)
TIMEOUT = timedelta(minutes=5)


class CheckResult(NamedTuple):
    """How a check ended."""

    judgement: Judgement
    report: Report
    seconds: float
    note: str
    """A warning about the version of the program, or an empty text."""

    @property
    def is_good(self) -> bool:
        return self.judgement.verdict in AgentRun.GOOD


def check_runner(name: str, runner: Runner, user: Any) -> CheckResult:
    """Run the check at once, on the machine of the operator: without a record, and without its daily limits."""
    if stop := stop_in_force(user.pk):
        return CheckResult(Judgement(Verdict.FAILED, stop.sentence), Report(), 0.0, "")
    if runner.kind == "inbox":
        judgement = Judgement(Verdict.DONE, "Prompts wait in the inbox for an agent.")
        return CheckResult(judgement, Report(), 0.0, "")
    return asyncio.run(_check(name, runner, user))


async def _check(name: str, runner: Runner, user: Any) -> CheckResult:
    run = Run.without_job(clock.now(), user.pk, TIMEOUT.total_seconds())
    session = AgentSession(name, runner, replace(run, secrets=SecretAccess(user.pk).find))
    begin = time.monotonic()
    try:
        await session.begin(PROMPT)
        if runner.kind == "webhook":
            judgement = await session.send()
        else:
            async with workplace(run, user.get_username()) as place:
                judgement = await session.work(place)
    except (Final, RetryLater) as error:
        judgement = Judgement(Verdict.FAILED, str(error))
    report = session.report
    note = version_note(runner.kind, report.version)
    return CheckResult(judgement, report, time.monotonic() - begin, note)
