"""The run of a prompt by a runner: its place, its process, its transcript, and its verdict."""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any

from schedules import clock, limits
from schedules.agents import asking, waiting
from schedules.agents.adapters import ADAPTERS
from schedules.agents.allowances import allowances_of_run, caps_of, least, least_left
from schedules.agents.asking import Standing
from schedules.agents.catalog import AGENT_COMMAND
from schedules.agents.definitions import Runner
from schedules.agents.hosted import ask
from schedules.agents.preamble import preamble_for, uses_previous, with_previous
from schedules.agents.recording import Bounds, Recorder
from schedules.agents.reports import Call, Report, ToolUse
from schedules.agents.spending import (
    Earlier,
    earlier_session,
    is_place_free,
    previous_answer,
    settle_session,
)
from schedules.agents.verdicts import Ending, Judged, Verdict, judge
from schedules.agents.workplaces import Workplace, workplace
from schedules.models import AgentRun, Approval
from schedules.secrets.masking import Masker
from schedules.secrets.references import fill_in_secrets
from schedules.tasks.commands.output import KeptOutput
from schedules.tasks.interface import AskPerson, Final, RetryLater, Run, Skip
from schedules.tasks.processes import Ended, Program, StartError, run_program

SAVE_EVERY = 1.0
LOOK_FOR_PLACE_EVERY = 0.5
RESULT_BYTES = 16_384
LAST_WORDS = 1000
# Between two looks: lines of JSON must come whole, and the last ones say how it ended.
KEPT_BYTES = 1_048_576
KEPT_LAST_BYTES = 262_144
# What another attempt could change. The rest needs a person, or would be refused again.
_MAY_RETRY = (Verdict.FAILED, Verdict.TIMED_OUT, Verdict.UNKNOWN)


async def run_prompt(prompt: str, name: str, runner: Runner, run: Run, owner: str) -> tuple[str, bool]:
    """Give a prompt to a runner, and return its answer and whether it is news; raises Final or RetryLater unless the verdict is good."""
    session = AgentSession(name, runner, run)
    try:
        await session.begin(prompt)
        if runner.kind == "webhook":
            judged = await session.send()
            return session.result(judged), judged.verdict == Verdict.DONE
        async with workplace(run, owner) as place:
            judged = await session.work(place)
    except asyncio.CancelledError:
        await session.note_stop()
        raise
    return session.result(judged), judged.verdict == Verdict.DONE


class AgentSession:
    """One run of a prompt by one runner, and what is stored of it."""

    def __init__(self, name: str, runner: Runner, run: Run) -> None:
        self._name, self._runner, self._run = name, runner, run
        self._adapter = ADAPTERS.get(runner.kind)
        self._prompt = ""
        self._secrets: dict[str, str] = {}
        self._earlier = Earlier()
        self._started_at, self._is_waiting = clock.now(), True
        self._masker = Masker()
        self._recorder: Recorder | None = None
        self._standing = Standing()
        self._approval: Approval | None = None
        """What a person has allowed or answered, so that the run goes on with it."""
        self._request: Mapping[str, Any] | None = None
        """What the run asks a person."""
        self._asked = 0
        """How often this attempt has asked while it ran."""
        self._denied: list[Call] = []
        """The calls that nobody has allowed while it ran."""
        self._has_been_allowed = False
        """Whether a person has allowed a call while it ran."""
        self._left: dict[str, float | None] = {}
        """What is left of the limits of the day."""

    @property
    def report(self) -> Report:
        """What the program has said about itself so far."""
        return self._recorder.report if self._recorder else self._blank

    @property
    def _blank(self) -> Report:
        """What is known before the program says anything: also a run that is killed at once belongs to its session."""
        return Report(session_id=self._earlier.session_id)

    async def begin(self, prompt: str) -> None:
        """Prepare the prompt and the secrets, and wait for a place."""
        if uses_previous(prompt):
            answer = await asyncio.to_thread(previous_answer, self._run.execution_id)
            prompt = with_previous(prompt, answer)
        # An agent would read what a person who checks the prompt cannot see.
        preamble = preamble_for(may_ask=self._runner.may_ask) if self._runner.preamble else ""
        self._prompt = preamble + limits.strip_unprintable(prompt)
        if self._name != AGENT_COMMAND:
            names = self._runner.secrets
            self._secrets = await self._run.secrets(names, command=self._name, of_installation=True)
        self._masker = Masker(self._secrets.values())
        await self._read_standing()
        if self._approval:
            self._earlier = self._standing.earlier if self._approval.session_id else Earlier()
            self._prompt = asking.prompt_to_go_on(self._standing, self._prompt)
        elif self._runner.session == "continue":
            self._earlier = await asyncio.to_thread(earlier_session, self._run.execution_id, self._name)
        if self._name == AGENT_COMMAND or not self._run.execution_id:
            await self._save(self._blank)
            return
        await self._stay_within_caps()
        if await self._wait_for_place():
            # Those before it have used more meanwhile.
            await self._stay_within_caps()

    async def _read_standing(self) -> None:
        """Read what the job was granted, and what a person has answered, which this attempt goes on with."""
        if not self._run.execution_id:
            return
        self._standing = await asyncio.to_thread(asking.read_standing, self._run.execution_id)
        if problem := self._runner.ungrantable(self._standing.grants):
            raise Final(f"The runner {self._name} {problem}")
        self._approval = asking.approval_to_use(self._standing)

    async def _stay_within_caps(self) -> None:
        """Skip the run if a limit of the day is used up, else let it use no more than what is left of them."""
        # Stored first, so that of two runs that begin together, the later one counts the other.
        await self._save(self._blank)
        if not any(caps_of(self._runner).values()):
            return
        run = self._run
        scope = run.execution_id, run.attempt, run.owner_id, self._name, self._runner
        allowances = await asyncio.to_thread(allowances_of_run, *scope, clock.now())
        if cap := next((each.words_if_used_up for each in allowances if each.is_used_up), ""):
            await self._save(self._blank, cap=cap)
            raise Skip(cap)
        self._left = {unit: least_left(allowances, unit) for unit in ("minutes", "tokens", "money")}

    async def send(self) -> Judged:
        """Send the prompt to a hosted agent, and judge its reply."""
        recorder = self._new_recorder()
        url, headers = fill_in_secrets([self._runner.url, dict(self._runner.headers)], self._secrets)
        await self._use_approval()
        await self._note_start()
        # A prompt that goes on with an answer is another one.
        key = f"{self._run.key}-{self._approval.pk}" if self._approval else self._run.key
        await ask(url, headers, self._prompt, self._run, recorder, self._timeout(), key=key)
        recorder.output.finish()
        await self._run.save_output(recorder.output.text)
        return await self._judge(recorder, Ending(stopped_for=self._bounds().reached(recorder.report)))

    async def work(self, place: Workplace) -> Judged:
        """Run the program to its end, and judge it."""
        socket = waiting.socket_in(place.folder) if self._waits else ""
        if not socket:
            return await self._work(place, "")
        async with waiting.answering(socket, self._decide):
            return await self._work(place, socket)

    async def _work(self, place: Workplace, socket: str) -> Judged:
        recorder = self._new_recorder()
        program = await self._program(place, socket)
        await self._use_approval()
        await self._note_start()
        timeout = self._timeout()
        self._running = asyncio.ensure_future(run_program(program, timeout, recorder))
        saving = asyncio.ensure_future(self._keep_saving(recorder))
        ended: Ended | None = None
        try:
            ended = await self._running
        except StartError as error:
            recorder.finish()
            judged = Judged(Verdict.FAILED, f"The program of {self._shown_name} cannot be started: {error}")
            await self._save(recorder.report, judged)
            raise Final(judged.words) from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not recorder.stopped_for or (task is not None and task.cancelling()):
                raise
        finally:
            saving.cancel()
            if ended is not None or recorder.stopped_for:
                recorder.finish()
            await asyncio.shield(self._run.save_output(recorder.output.text))
        settle_session(recorder.report, self._earlier)
        return await self._judge(recorder, self._ending(ended, recorder))

    async def _decide(self, call: Call, session_id: str) -> bool:
        """Ask a person about a call, while its program waits, and return whether it may be made."""
        is_allowed = await self._ask_in_run(call, session_id)
        if is_allowed:
            self._has_been_allowed = True
        else:
            self._denied.append(call)
        return is_allowed

    async def _ask_in_run(self, call: Call, session_id: str) -> bool:
        report = self.report
        asked = self._standing.asked + self._asked
        request = asking.request_for(
            call, session_id, report.said, self._name, self._runner, asked, self._masker.mask
        )
        within = self._runner.wait_within
        if isinstance(request, str) or within is None:
            return False
        self._asked += 1
        run = self._run.execution_id, self._run.attempt
        approval = await asyncio.to_thread(waiting.ask, *run, request, within)
        return approval is not None and await waiting.wait_for_answer(approval)

    async def note_stop(self) -> None:
        """Note that the run was stopped from outside: by a person, or because its worker ends."""
        await self._save(self.report, Judged(Verdict.FAILED, "It was stopped before its end."))

    def result(self, judged: Judged) -> str:
        """Return the answer of a run that went well; raises the failure of any other."""
        assert self._recorder is not None
        answer = limits.shortened(self._masked(self._recorder.report.answer), RESULT_BYTES)
        if judged.verdict in AgentRun.GOOD:
            return answer
        if self._request is not None:
            raise AskPerson(judged.words, self._request, self._runner.answer_within)
        # A call that a person has allowed once is not made twice, and an answer is not given twice.
        may_retry = judged.verdict in _MAY_RETRY and self._approval is None and not self._has_been_allowed
        failure: Final | RetryLater = (RetryLater if may_retry else Final)(judged.words)
        failure.result = answer or None
        raise failure

    async def _judge(self, recorder: Recorder, ending: Ending) -> Judged:
        if not recorder.report.denials:
            # Whatever the program says of them.
            for call in self._denied:
                recorder.report.deny(call.tool, call.arguments)
        tells_all = self._adapter is None or self._adapter.tells_all_at_end
        judged = judge(recorder.report, ending, tells_all_at_end=tells_all)
        if judged.verdict is Verdict.NEEDS_YOU and self._may_ask:
            judged = self._ask(recorder.report, judged)
        await self._save(recorder.report, judged)
        return judged

    @property
    def _may_ask(self) -> bool:
        return self._runner.may_ask and bool(self._run.execution_id)

    @property
    def _waits(self) -> bool:
        """Whether its program waits for the answer to a call, instead of ending."""
        return self._may_ask and self._runner.wait_within is not None

    def _ask(self, report: Report, judged: Judged) -> Judged:
        """Prepare what a person is asked; a call that nobody can be asked about was refused."""
        asked = self._standing.asked
        request = asking.request_of(report, self._name, self._runner, asked, self._masker.mask)
        if isinstance(request, str):
            verdict = Verdict.REFUSED if report.deferred else judged.verdict
            return Judged(verdict, f"{judged.words} Nobody can be asked: {request}.")
        self._request = request
        return judged

    async def _use_approval(self) -> None:
        """Use up what a person has allowed or answered, right before the run goes on with it."""
        if self._approval and not await asyncio.to_thread(asking.use_approval, self._approval.pk):
            raise Final("What was allowed was used before.")

    async def _note_start(self) -> None:
        """Note that the program starts: the time before does not count."""
        self._started_at, self._is_waiting = clock.now(), False
        await self._save(self._blank)

    def _new_recorder(self) -> Recorder:
        kept = KeptOutput(self._runner.output_characters, self._secrets.values())
        self._recorder = Recorder(self._adapter, kept, self._bounds(), self._stop, self._blank)
        self._recorder.report.earlier_usage = self._earlier.tokens_in, self._earlier.tokens_out
        return self._recorder

    @property
    def _shown_name(self) -> str:
        return "the agent command" if self._name == AGENT_COMMAND else f"the runner {self._name}"

    def _timeout(self) -> float:
        longest, left = self._runner.max_time, self._left.get("minutes")
        seconds = least(
            longest.total_seconds() if longest else None, None if left is None else max(1.0, left * 60)
        )
        return self._run.timeout if seconds is None else min(self._run.timeout, seconds)

    def _bounds(self) -> Bounds:
        runner = self._runner
        tokens = least(runner.max_tokens, self._left.get("tokens"))
        money = least(runner.max_money, self._left.get("money"))
        return Bounds(runner.max_turns, None if tokens is None else int(tokens), money)

    def _stop(self) -> None:
        self._running.cancel()

    async def _program(self, place: Workplace, socket: str) -> Program:
        runner, adapter = self._runner, self._adapter
        arguments = list(runner.command)
        variables: Mapping[str, str] = runner.environment
        if self._name != AGENT_COMMAND:
            arguments = [arguments[0], *fill_in_secrets(arguments[1:], self._secrets)]
            variables = fill_in_secrets(dict(variables), self._secrets)
        own: dict[str, str] = {}
        if adapter:
            grants = self._standing.grants
            chosen = runner.model_copy(update={"tools": list(dict.fromkeys([*runner.tools, *grants]))})
            arguments += adapter.arguments(chosen, self._earlier.session_id)
            if self._may_ask and adapter.can_defer:
                own_rules = runner, adapter, grants, self._approval, place.folder, socket
                arguments += await asyncio.to_thread(asking.arguments_for_asking, *own_rules)
            own = adapter.environment(runner, place.folder)
            await asyncio.to_thread(_write_files, place.folder, adapter.files(runner))
        if any("\0" in text for text in (*arguments, *variables.values())):
            raise Final("A secret of the runner has a NUL character, which no program can be given.")
        return Program(
            arguments,
            {**place.environment, **own, **variables},
            runner.directory or place.folder,
            input=self._prompt,
            head=KEPT_BYTES,
            tail=KEPT_LAST_BYTES,
            mark=token_hex(16),
        )

    def _ending(self, ended: Ended | None, recorder: Recorder) -> Ending:
        last_words = recorder.output.last_lines[-LAST_WORDS:]
        if ended is None:
            return Ending(stopped_for=recorder.stopped_for, last_words=last_words)
        over = recorder.stopped_for or self._bounds().reached(recorder.report)
        return Ending(
            code=ended.code,
            signal=ended.signal_name if ended.signal else "",
            stopped_for="time" if ended.is_timeout else over,
            has_gap=recorder.has_gap,
            last_words=last_words,
        )

    async def _wait_for_place(self) -> bool:
        """Wait until fewer runs than may work at once are under way with this runner; return whether that took time."""
        arguments = self._run.execution_id, self._run.attempt, self._name, self._runner.at_once
        has_waited = False
        try:
            async with asyncio.timeout(self._run.timeout):
                while not await asyncio.to_thread(is_place_free, *arguments):
                    has_waited = True
                    await asyncio.sleep(LOOK_FOR_PLACE_EVERY)
        except TimeoutError:
            reason = f"The runner {self._name} works on {self._runner.at_once} prompts at once, and had no place for this one."
            await self._save(self._blank, Judged(Verdict.TIMED_OUT, reason))
            raise RetryLater(reason) from None
        return has_waited

    async def _keep_saving(self, recorder: Recorder) -> None:
        """Store what is new, at most every second."""
        while True:
            await asyncio.sleep(SAVE_EVERY)
            if recorder.is_changed:
                recorder.is_changed = False
                await self._run.save_output(recorder.output.text)
                await self._save(recorder.report)

    def _masked(self, text: str) -> str:
        return limits.strip_unprintable(self._masker.mask(text))

    def _uses(self, uses: Iterable[ToolUse]) -> list[Any]:
        return [{key: self._masked(text) for key, text in use.as_json().items()} for use in uses]

    async def _save(self, report: Report, judged: Judged | None = None, cap: str = "") -> None:
        total = report.session_usage
        values = {
            "runner": self._name,
            "kind": self._runner.kind,
            "started_at": self._started_at,
            "is_waiting": self._is_waiting,
            "ended_at": clock.now() if judged or cap else None,
            "cap": cap,
            "verdict": judged.verdict if judged else "",
            "words": self._masked(judged.words) if judged else "",
            "program_version": self._masked(report.version)[:40],
            "session_id": self._masked(report.session_id)[:200],
            "turns": report.turns,
            "tokens_in": report.tokens_in,
            "tokens_out": report.tokens_out,
            "cost": None if report.cost is None else round(report.cost, 6),
            "session_cost": None if report.session_cost is None else round(report.session_cost, 6),
            "session_tokens": sum(total) if total else None,
            "tool_calls": report.tool_calls,
            "tools": self._uses(report.tools),
            "denials": self._uses(report.denials),
            "answer": self._masked(report.answer),
        }
        await asyncio.shield(self._run.save_agent_run(values))


def _write_files(folder: str, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        file = Path(folder, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
