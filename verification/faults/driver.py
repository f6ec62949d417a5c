"""Driver that creates and changes jobs through pages and tools, and records its requests and their answers."""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from verification.faults.clients import Agent, Answer, Browser
from verification.faults.records import Operation, Policy, When
from verification.faults.sink import SECRET_NAME

KINDS = {
    "interval": 8,
    "weak": 4,
    "slow": 4,
    "plain": 4,
    "cron": 3,
    "once": 5,
    "prompt": 1,
    "notify": 1,
    "sealed": 3,
}
VERBS = {"edit": 4, "pause": 3, "cancel": 1, "delete": 2, "run": 3, "look": 2}
# Policies are filled in on the page; the tools take only the number of runs. What takes a lane of its own keeps the
# usual ones: a dozen of its slots at once would make others late.
WITH_POLICIES = ("interval", "weak", "slow", "cron")
TRIES = 6
# The kinds for which the target has a folder of its own.
FOLDERS = ("weak", "slow", "sealed")


@dataclass
class Asked:
    """One job, in the state that the driver expects."""

    tag: str
    kind: str
    when: When
    request: dict[str, Any]
    policy: Policy = field(default_factory=Policy)
    form: dict[str, str] | None = None
    job_id: str = ""
    is_paused: bool = False


class Driver(threading.Thread):
    """A thread that is the only one to change its jobs, so that it knows their state."""

    def __init__(
        self,
        *,
        number: int,
        seed: int,
        jobs: int,
        mcp_urls: list[str],
        pages: str,
        token: str,
        target: str,
        offset: Callable[[], float],
        period: float = 0.25,
    ) -> None:
        super().__init__(daemon=True, name=f"driver {number}")
        self.operations: list[Operation] = []
        self.stopping = threading.Event()
        # Held during each operation, so that records can be read when none is under way.
        self.between_operations = threading.Lock()
        self._random = random.Random(f"{seed} {number}")
        self._number, self._wanted, self._period = number, jobs, period
        self._agents = [Agent(url, token) for url in mcp_urls]
        self._browser = Browser(pages)
        self._target, self._offset = target, offset
        self._jobs: list[Asked] = []
        self._made = 0
        self.trouble = ""

    def run(self) -> None:
        try:
            self._drive()
        except Exception as error:
            self.trouble = f"{self.name} gave up: {error!r}"
            raise

    def _drive(self) -> None:
        while not self.stopping.is_set():
            with self.between_operations:
                self.step()
            pause = self._period if len(self._jobs) >= self._wanted else self._period / 10
            self.stopping.wait(self._random.uniform(0, 2 * pause))

    def step(self) -> None:
        """Perform one operation on one job."""
        self._remove_finished()
        if len(self._jobs) < self._wanted:
            self._create()
            return
        job = self._random.choice(self._jobs)
        verb = self._random.choices(list(VERBS), list(VERBS.values()))[0]
        if job.is_paused and self._random.random() < 0.7:
            verb = "resume"
        match verb:
            case "look":
                self._agent().call("job_status", job_id=job.job_id)
                self._work_on_prompts()
            case "edit":
                self._edit(job)
            case "delete":
                self._trash(job)
            case _:
                self._do(verb, job)

    def wind_down(self, seconds: float) -> int:
        """Cancel everything, and return how many jobs could not be reached."""
        until = time.monotonic() + seconds
        while self._jobs and time.monotonic() < until:
            self._do("cancel", self._jobs[0], is_final=True)
        self._cancel_unknown()
        for agent in self._agents:
            agent.close()
        self._browser.close()
        return len(self._jobs)

    def _cancel_unknown(self) -> None:
        """Cancel jobs that were created although no answer confirmed it."""
        for status in ("pending", "running", "paused"):
            found = self._agents[0].call("list_jobs", status=status, limit=1000)
            for job in found.body.get("jobs", []):
                if job["name"].startswith(f"f{self._number}-"):
                    self._agents[0].call("cancel_job", job_id=job["job_id"])

    def _create(self) -> None:
        job = self._invent()
        for _ in range(TRIES):
            answer = self._log("create", job, lambda: self._make(job))
            if answer.outcome == "acknowledged":
                job.job_id = answer.body["job_id"]
                self._jobs.append(job)
                return
            if answer.outcome == "refused" or self.stopping.wait(1):
                return

    def _make(self, job: Asked) -> Answer:
        if job.form is None:
            return self._agent().call("schedule_job", **job.request)
        made = self._browser.fill_in(job.form)
        if made.outcome == "acknowledged":
            # The page shows the next run as text; its exact time comes from the tool.
            made.body |= self._agent().call("job_status", job_id=made.body["job_id"]).body
        return made

    def _invent(self) -> Asked:
        self._made += 1
        tag = f"f{self._number}-{self._made}"
        kind = self._random.choices(list(KINDS), list(KINDS.values()))[0]
        policy = self._some_policy(kind)
        when = self._some_time(kind, policy)
        request: dict[str, Any] = {
            "name": tag,
            "task": "webhook",
            "kwargs": {"url": f"{self._target}/{kind if kind in FOLDERS else 'well'}/{tag}"},
            "idempotency_key": tag,
            **_trigger(when),
        }
        match kind:
            case "plain":
                request["task"] = "faults.deliver"
                request["kwargs"] |= {"seconds": self._random.choice([0, 0, 0.2, 1.0])}
            case "sealed":
                request["kwargs"] |= {"headers": {"X-Api-Key": f"${{secret:{SECRET_NAME}}}"}}
            case "prompt":
                request |= {"task": "prompt", "kwargs": {"prompt": f"Think of {tag}."}}
            case "notify":
                request |= {"task": "notify", "kwargs": {"message": tag, "topic": "campaign"}}
        if policy.max_runs:
            request["max_runs"] = policy.max_runs
        form = _form(request, when, policy) if kind in WITH_POLICIES and policy.attempts else None
        return Asked(tag, kind, when, request, policy, form)

    def _some_policy(self, kind: str) -> Policy:
        dice = self._random
        max_runs = dice.choice([None, None, dice.randint(2, 5), dice.randint(3, 25)])
        max_runs = max_runs if kind != "once" else None
        if kind not in WITH_POLICIES or dice.random() < 0.3:
            return Policy(max_runs=max_runs)
        is_to_end, is_careful = dice.random() < 0.15, dice.random() < 0.2
        return Policy(
            overlap=dice.choice(["skip", "queue", "allow"]),
            catch_up=dice.choice(["once", "all", "none"]),
            # A further attempt after a failure would be a further delivery.
            attempts=1 if is_careful else dice.choice([1, 2, 3]),
            at_most_once=is_careful,
            max_runs=max_runs,
            ends_at=int(time.time() + self._offset() + dice.uniform(40, 240)) if is_to_end else None,
        )

    def _some_time(self, kind: str, policy: Policy) -> When:
        match kind:
            case "slow":
                # Runs that wait for each other need intervals long enough to catch up.
                return When(
                    "interval", self._random.choice([2, 5, 8] if policy.overlap == "queue" else [1, 3, 6])
                )
            case "once":
                return When("once", int(time.time() + self._offset() + self._random.uniform(4, 30)))
            case "cron":
                return When("cron", self._random.choice([1, 1, 2]))
            case _:
                return When("interval", self._random.choice([5, 7, 10, 15, 20, 30]))

    def _edit(self, job: Asked) -> None:
        if self._random.random() < 0.3:
            self._do("edit", job, label=f"label {self._random.random():.3f}")
            return
        if job.policy.max_runs and self._random.random() < 0.2:
            policy = replace(job.policy, max_runs=job.policy.max_runs + 3)
            self._do("edit", job, policy=policy, max_runs=policy.max_runs)
            return
        when = self._some_time("once" if job.when.kind == "once" else job.kind, job.policy)
        self._do("edit", job, when=when, **_trigger(when))

    def _trash(self, job: Asked) -> None:
        """Move a job to the trash, and restore it every other time."""
        self._do("delete", job)
        if self.operations[-1].outcome != "acknowledged" or self._random.random() < 0.5:
            return
        self.stopping.wait(self._random.uniform(0, 3))
        answer = self._log("restore", job, lambda: self._browser.press("restore", job.job_id, job.tag))
        self._jobs.append(job)
        if answer.outcome != "acknowledged":
            self._cancel_until_confirmed(job)

    def _do(
        self,
        verb: Any,
        job: Asked,
        *,
        when: When | None = None,
        policy: Policy | None = None,
        is_final: bool = False,
        **changes: Any,
    ) -> None:
        answer = self._log(verb, job, lambda: self._ask(verb, job, is_final, changes), when, policy)
        if answer.outcome == "unknown" and not is_final:
            # Its state is unknown now: cancel it until the product confirms it.
            self._cancel_until_confirmed(job)
        elif answer.outcome == "acknowledged":
            job.when, job.policy = when or job.when, policy or job.policy
            job.is_paused = verb == "pause" or (job.is_paused and verb != "resume")
        is_over = verb in ("cancel", "delete") and answer.outcome == "acknowledged"
        is_gone = answer.outcome == "refused" and any(
            word in answer.words
            for word in ("already completed", "already failed", "not found", "already canc")
        )
        if (
            is_over or is_gone or (is_final and answer.outcome == "refused" and "cancelled" in answer.body)
        ) and (job in self._jobs):
            self._jobs.remove(job)

    def _ask(self, verb: str, job: Asked, is_final: bool, changes: dict[str, Any]) -> Answer:
        if verb != "edit" and not is_final and self._random.random() < 0.25:
            return self._browser.press(verb, job.job_id, job.tag)
        tool = {"edit": "update_job", "delete": "delete_schedule"}.get(verb, f"{verb}_job")
        name = "schedule_id" if verb == "delete" else "job_id"
        return self._agent().call(tool, **{name: job.job_id}, **changes)

    def _cancel_until_confirmed(self, job: Asked) -> None:
        for _ in range(TRIES):
            self._log("cancel", job, lambda: self._agent().call("cancel_job", job_id=job.job_id))
            if self.operations[-1].outcome != "unknown" or self.stopping.wait(1):
                break
        if self.operations[-1].outcome == "acknowledged" and job in self._jobs:
            self._jobs.remove(job)

    def _log(
        self,
        verb: Any,
        job: Asked,
        ask: Callable[[], Answer],
        when: When | None = None,
        policy: Policy | None = None,
    ) -> Answer:
        sent_at = time.time()
        answer = ask()
        told = answer.body.get("next_run") or next(iter(answer.body.get("next_runs", [])), None)
        self.operations.append(
            Operation(
                verb=verb,
                tag=job.tag,
                sent_at=sent_at,
                answered_at=time.time(),
                outcome=answer.outcome,
                job_id=job.job_id or answer.body.get("job_id", ""),
                when=job.when if verb == "create" else when,
                policy=job.policy if verb == "create" else policy,
                grid=int(datetime.fromisoformat(told).timestamp()) if told else None,
                execution=answer.body.get("execution_id"),
                words=answer.words,
            )
        )
        return answer

    def _work_on_prompts(self) -> None:
        """Claim and complete prompts, as an agent does."""
        taken = self._agent().call("claim_prompts", limit=20, lease_minutes=1)
        for prompt in taken.body.get("prompts", []):
            self._agent().call("complete_prompt", execution_id=prompt["execution_id"], result="thought")

    def _remove_finished(self) -> None:
        """Remove one-time jobs that have run, so that new ones replace them."""
        now = time.time() + self._offset()
        self._jobs = [job for job in self._jobs if job.when.kind != "once" or job.when.at > now - 20]

    def _agent(self) -> Agent:
        return self._agents[0] if self._random.random() < 0.75 else self._agents[-1]


def _form(request: dict[str, Any], when: When, policy: Policy) -> dict[str, str]:
    """Return the same request as form data of the page."""
    every = {"when": "every", "every_count": str(when.at), "every_unit": "seconds"}
    cron = {"when": "phrase", "phrase": f"*/{when.at} * * * *"}
    ends_at = datetime.fromtimestamp(policy.ends_at, UTC) if policy.ends_at else None
    return {
        "name": request["name"],
        "task": request["task"],
        f"{request['task']}-url": request["kwargs"]["url"],
        **(every if when.kind == "interval" else cron),
        "timezone": "UTC",
        "overlap": policy.overlap,
        "catch_up": policy.catch_up,
        "attempts": str(policy.attempts),
        "backoff": "1s",
        "max_runs": str(policy.max_runs or ""),
        "ends_at": f"{ends_at:%Y-%m-%dT%H:%M:%S}" if ends_at else "",
        "idempotency_key": request["idempotency_key"],
        # An unchecked box is not sent.
        **({"at_most_once": "on"} if policy.at_most_once else {}),
        "then": "save",
    }


def _trigger(when: When) -> dict[str, Any]:
    match when.kind:
        case "once":
            config: dict[str, Any] = {"run_at": datetime.fromtimestamp(when.at, UTC).isoformat()}
        case "cron":
            config = {"expression": f"*/{when.at} * * * *"}
        case _:
            config = {"seconds": when.at}
    return {"trigger_type": when.kind, "trigger_config": config}
