"""The run of a prompt by a runner: wait for a free place, run the program or ask the hosted agent, judge the result."""

import asyncio
from collections.abc import Mapping
from secrets import token_hex
from typing import Any

from schedules import clock, limits
from schedules.agents import asking, waiting
from schedules.agents.adapters import ADAPTERS
from schedules.agents.allowances import allowances_of_run, caps_of, smallest, smallest_remaining
from schedules.agents.asking import AskingState
from schedules.agents.catalog import AGENT_COMMAND
from schedules.agents.definitions import Runner
from schedules.agents.hosted import ask
from schedules.agents.prompt_texts import preamble_for, uses_previous, with_previous
from schedules.agents.recording import Bounds, Recorder, RunRecord
from schedules.agents.reports import Call, Report
from schedules.agents.spending import (
    EarlierSession,
    earlier_session,
    is_place_free,
    previous_answer,
    subtract_earlier_usage,
)
from schedules.agents.verdicts import Ending, Judgement, Verdict, judge
from schedules.agents.workplaces import Workplace, workplace
from schedules.models import AgentRun, Approval
from schedules.secrets.masking import Masker
from schedules.secrets.references import fill_in_secrets
from schedules.tasks.commands.output import KeptOutput
from schedules.tasks.database_threads import in_thread
from schedules.tasks.interface import AskPerson, Final, RetryLater, Run, Skip
from schedules.tasks.processes import Ended, Program, StartError, run_program

PLACE_POLL_SECONDS = 0.5
MAX_RESULT_BYTES = 16_384
MAX_FINAL_OUTPUT = 1000
# How much of the output the guard keeps between two reads: lines of JSON must stay whole, and the last ones say how the
# run ended.
HEAD_BYTES = 1_048_576
TAIL_BYTES = 262_144
# A retry may help after these. The others need a person, or would be refused again.
_RETRYABLE = (Verdict.FAILED, Verdict.TIMED_OUT, Verdict.UNKNOWN)


async def run_prompt(prompt: str, name: str, runner: Runner, run: Run, owner: str) -> tuple[str, bool]:
    """Give a prompt to a runner; return its answer, and False if there was nothing to do.

    Unless the verdict is good, it raises Final, RetryLater, or AskPerson.
    """
    session = AgentSession(name, runner, run)
    try:
        await session.begin(prompt)
        if runner.kind == "webhook":
            judgement = await session.send()
            return session.result(judgement), judgement.verdict == Verdict.DONE
        async with workplace(run, owner) as place:
            judgement = await session.work(place)
    except asyncio.CancelledError:
        await session.record_stop()
        raise
    return session.result(judgement), judgement.verdict == Verdict.DONE


class AgentSession:
    """One attempt of a run of a prompt by one runner."""

    def __init__(self, name: str, runner: Runner, run: Run) -> None:
        self._name, self._runner, self._run = name, runner, run
        self._adapter = ADAPTERS.get(runner.kind)
        self._record = RunRecord(name, runner.kind, run)
        self._prompt = ""
        self._secrets: dict[str, str] = {}
        self._earlier = EarlierSession()
        self._recorder: Recorder | None = None
        self._asking_state = AskingState()
        self._approval: Approval | None = None
        """The permission or answer of a person that this attempt continues with."""
        self._request: Mapping[str, Any] | None = None
        """What the run asks a person at its end."""
        self._question_count = 0
        """How often this attempt has asked a person while its program ran."""
        self._denied_calls: list[Call] = []
        """The calls that nobody allowed while the program ran."""
        self._has_been_allowed = False
        """Whether a person has allowed a call while the program ran."""
        self._remaining: dict[str, float | None] = {}
        """What remains of the daily limits, by unit."""

    @property
    def report(self) -> Report:
        """What the program has reported so far."""
        return self._recorder.report if self._recorder else self._blank_report

    @property
    def _blank_report(self) -> Report:
        """The report of a program that has not printed anything yet; a run that is killed now still has its session."""
        return Report(session_id=self._earlier.session_id)

    async def begin(self, prompt: str) -> None:
        """Prepare the prompt and the secrets, and wait until the runner has a free place."""
        if uses_previous(prompt):
            answer = await in_thread(previous_answer, self._run.execution_id)
            prompt = with_previous(prompt, answer)
        # An agent would read invisible characters, which a person who checks the prompt cannot see.
        preamble = preamble_for(may_ask=self._runner.may_ask) if self._runner.preamble else ""
        self._prompt = preamble + limits.strip_unprintable(prompt)
        if self._name != AGENT_COMMAND:
            names = self._runner.secrets
            self._secrets = await self._run.secrets(names, command=self._name, of_installation=True)
        self._record.masker = Masker(self._secrets.values())
        await self._read_asking_state()
        if self._approval:
            self._earlier = self._asking_state.session if self._approval.session_id else EarlierSession()
            self._prompt = asking.prompt_to_continue(self._asking_state, self._prompt)
        elif self._runner.session == "continue":
            self._earlier = await in_thread(earlier_session, self._run.execution_id, self._name)
        if self._name == AGENT_COMMAND or not self._run.execution_id:
            await self._record.save(self._blank_report)
            return
        await self._stay_within_caps()
        if await self._wait_for_place():
            # The runs that it waited for have used more meanwhile.
            await self._stay_within_caps()

    async def _read_asking_state(self) -> None:
        """Read what the job may do, and the answer of a person that this attempt continues with."""
        if not self._run.execution_id:
            return
        self._asking_state = await in_thread(asking.read_asking_state, self._run.execution_id)
        if problem := self._runner.ungrantable(self._asking_state.grants):
            raise Final(f"The runner {self._name} {problem}")
        self._approval = asking.approval_to_use(self._asking_state)

    async def _stay_within_caps(self) -> None:
        """Skip the run if a daily limit is used up; otherwise note what remains of the limits."""
        # Saved first, so that of two runs that begin at the same time, the later one counts the other.
        await self._record.save(self._blank_report)
        if not any(caps_of(self._runner).values()):
            return
        run = self._run
        scope = run.execution_id, run.attempt, run.owner_id, self._name, self._runner
        allowances = await in_thread(allowances_of_run, *scope, clock.now())
        if cap := next((each.used_up_message for each in allowances if each.is_used_up), ""):
            await self._record.save(self._blank_report, cap=cap)
            raise Skip(cap)
        self._remaining = {
            unit: smallest_remaining(allowances, unit) for unit in ("minutes", "tokens", "money")
        }

    async def send(self) -> Judgement:
        """Send the prompt to a hosted agent, and judge its reply."""
        recorder = self._new_recorder()
        url, headers = fill_in_secrets([self._runner.url, dict(self._runner.headers)], self._secrets)
        await self._use_approval()
        await self._record_start()
        # A prompt with an answer is another prompt: the agent must not take it for a repetition of the first.
        key = f"{self._run.key}-{self._approval.pk}" if self._approval else self._run.key
        await ask(url, headers, self._prompt, self._run, recorder, self._timeout(), key=key)
        recorder.output.finish()
        await self._run.save_output(recorder.output.text)
        return await self._judge(recorder, Ending(stopped_for=self._bounds().reached(recorder.report)))

    async def work(self, place: Workplace) -> Judgement:
        """Run the program to its end, and judge the result."""
        socket = waiting.socket_in(place.folder) if self._waits_for_answers else ""
        if not socket:
            return await self._work(place, "")
        async with waiting.answering(socket, self._decide):
            return await self._work(place, socket)

    async def _work(self, place: Workplace, socket: str) -> Judgement:
        recorder = self._new_recorder()
        program = await self._program(place, socket)
        await self._use_approval()
        await self._record_start()
        timeout = self._timeout()
        self._running = asyncio.ensure_future(run_program(program, timeout, recorder))
        saving = asyncio.ensure_future(self._record.keep_saving(recorder))
        ended: Ended | None = None
        try:
            ended = await self._running
        except StartError as error:
            recorder.finish()
            judgement = Judgement(
                Verdict.FAILED, f"The program of {self._display_name} cannot be started: {error}"
            )
            await self._record.save(recorder.report, judgement)
            raise Final(judgement.reason) from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not recorder.stopped_for or (task is not None and task.cancelling()):
                raise
        finally:
            saving.cancel()
            if ended is not None or recorder.stopped_for:
                recorder.finish()
            await asyncio.shield(self._run.save_output(recorder.output.text))
        subtract_earlier_usage(recorder.report, self._earlier)
        return await self._judge(recorder, self._ending(ended, recorder))

    async def _decide(self, call: Call, session_id: str) -> bool:
        """Ask a person about a call while its program waits; return whether the call may be made."""
        is_allowed = await self._ask_in_run(call, session_id)
        if is_allowed:
            self._has_been_allowed = True
        else:
            self._denied_calls.append(call)
        return is_allowed

    async def _ask_in_run(self, call: Call, session_id: str) -> bool:
        request = self._asker.request_for_call(call, session_id, self.report.last_text)
        within = self._runner.wait_within
        if isinstance(request, str) or within is None:
            return False
        self._question_count += 1
        run = self._run.execution_id, self._run.attempt
        approval = await in_thread(waiting.record_request, *run, request, within)
        return approval is not None and await waiting.wait_for_answer(approval)

    async def record_stop(self) -> None:
        """Record that the run was stopped from outside: by a person, or because its worker shuts down."""
        await self._record.save(self.report, Judgement(Verdict.FAILED, "It was stopped before its end."))

    def result(self, judgement: Judgement) -> str:
        """Return the answer of a run that went well; otherwise raise its failure, or its question to a person."""
        assert self._recorder is not None
        answer = limits.shortened(self._record.mask(self._recorder.report.answer), MAX_RESULT_BYTES)
        if judgement.verdict in AgentRun.GOOD:
            return answer
        if self._request is not None:
            raise AskPerson(judgement.reason, self._request, self._runner.answer_within)
        # No retry after a permission or an answer: the call could be made twice.
        may_retry = judgement.verdict in _RETRYABLE and self._approval is None and not self._has_been_allowed
        failure: Final | RetryLater = (RetryLater if may_retry else Final)(judgement.reason)
        failure.result = answer or None
        raise failure

    async def _judge(self, recorder: Recorder, ending: Ending) -> Judgement:
        if not recorder.report.denials:
            # The program need not report the calls that its hook has denied.
            for call in self._denied_calls:
                recorder.report.deny(call.tool, call.arguments)
        tells_all = self._adapter is None or self._adapter.tells_all_at_end
        judgement = judge(recorder.report, ending, tells_all_at_end=tells_all)
        if judgement.verdict is Verdict.NEEDS_YOU and self._may_ask:
            judgement = self._prepare_request(recorder.report, judgement)
        await self._record.save(recorder.report, judgement)
        return judgement

    @property
    def _asker(self) -> asking.Asker:
        count = self._asking_state.question_count + self._question_count
        return asking.Asker(self._name, self._runner, self._record.masker, count)

    @property
    def _may_ask(self) -> bool:
        return self._runner.may_ask and bool(self._run.execution_id)

    @property
    def _waits_for_answers(self) -> bool:
        """Whether the program waits while a person decides about a call, instead of ending."""
        return self._may_ask and self._runner.wait_within is not None

    def _prepare_request(self, report: Report, judgement: Judgement) -> Judgement:
        """Prepare what a person is asked; a call that nobody can be asked about counts as refused."""
        asker = self._asker._replace(question_count=self._asking_state.question_count)
        request = asker.request_at_end(report)
        if isinstance(request, str):
            verdict = Verdict.REFUSED if report.deferred else judgement.verdict
            return Judgement(verdict, f"{judgement.reason} Nobody can be asked: {request}.")
        self._request = request
        return judgement

    async def _use_approval(self) -> None:
        """Mark the approval as used, right before the run continues with it."""
        if self._approval and not await in_thread(asking.use_approval, self._approval.pk):
            raise Final("What was allowed was used before.")

    async def _record_start(self) -> None:
        self._record.start()
        await self._record.save(self._blank_report)

    def _new_recorder(self) -> Recorder:
        output = KeptOutput(self._runner.output_characters, self._secrets.values())
        self._recorder = Recorder(self._adapter, output, self._bounds(), self._stop, self._blank_report)
        self._recorder.report.earlier_usage = self._earlier.tokens_in, self._earlier.tokens_out
        return self._recorder

    @property
    def _display_name(self) -> str:
        return "the agent command" if self._name == AGENT_COMMAND else f"the runner {self._name}"

    def _timeout(self) -> float:
        seconds = [self._run.timeout]
        if self._runner.max_time:
            seconds.append(self._runner.max_time.total_seconds())
        if (minutes := self._remaining.get("minutes")) is not None:
            seconds.append(max(1.0, minutes * 60))
        return min(seconds)

    def _bounds(self) -> Bounds:
        runner = self._runner
        tokens = smallest(runner.max_tokens, self._remaining.get("tokens"))
        money = smallest(runner.max_money, self._remaining.get("money"))
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
        adapter_variables: dict[str, str] = {}
        if adapter:
            grants = self._asking_state.grants
            chosen = runner.model_copy(update={"tools": list(dict.fromkeys([*runner.tools, *grants]))})
            arguments += adapter.arguments(chosen, self._earlier.session_id)
            if self._may_ask and adapter.can_defer:
                rules = runner, adapter, grants, self._approval, place.folder, socket
                arguments += await asyncio.to_thread(asking.arguments_for_asking, *rules)
            adapter_variables = adapter.environment(runner)
        if any("\0" in text for text in (*arguments, *variables.values())):
            raise Final("A secret of the runner has a NUL character, which no program can be given.")
        return Program(
            arguments,
            {**place.environment, **adapter_variables, **variables},
            runner.directory or place.folder,
            input=self._prompt,
            head=HEAD_BYTES,
            tail=TAIL_BYTES,
            mark=token_hex(16),
        )

    def _ending(self, ended: Ended | None, recorder: Recorder) -> Ending:
        final_output = recorder.output.last_lines[-MAX_FINAL_OUTPUT:]
        if ended is None:
            return Ending(stopped_for=recorder.stopped_for, final_output=final_output)
        used_up = recorder.stopped_for or self._bounds().reached(recorder.report)
        return Ending(
            code=ended.code,
            signal=ended.signal_name if ended.signal else "",
            stopped_for="time" if ended.is_timeout else used_up,
            has_gap=recorder.has_gap,
            final_output=final_output,
        )

    async def _wait_for_place(self) -> bool:
        """Wait until the runner works on few enough other runs; return whether it had to wait."""
        arguments = self._run.execution_id, self._run.attempt, self._name, self._runner.at_once
        has_waited = False
        try:
            async with asyncio.timeout(self._run.timeout):
                while not await in_thread(is_place_free, *arguments):
                    has_waited = True
                    await asyncio.sleep(PLACE_POLL_SECONDS)
        except TimeoutError:
            reason = f"The runner {self._name} works on {self._runner.at_once} prompts at once, and had no place for this one."
            await self._record.save(self._blank_report, Judgement(Verdict.TIMED_OUT, reason))
            raise RetryLater(reason) from None
        return has_waited
