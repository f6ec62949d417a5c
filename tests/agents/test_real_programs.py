"""The real `claude` and `codex` through their adapters, with a model on this machine that ends in every way."""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from schedules import clock
from schedules.models import AgentRun, Approval, Event
from schedules.result import Ok
from schedules.services.permissions import Actor
from schedules.services.runs.approvals import DENY, ONCE, REPLY, answer_approval
from schedules.tasks.interface import Final, RetryLater
from tests.agents.test_runs import execution, perform
from tests.agents.work import Working, work
from tests.factories import ClusterFactory, JobFactory
from tests.programs.models import FINAL_TEXT, Request, ScriptedModel, Step, scripted_model
from tests.programs.programs import BIN, PROGRAMS

# Runs read their owner in another thread.
pytestmark = pytest.mark.django_db(transaction=True)

__all__ = ["execution"]

Verdict = AgentRun.Verdict
PUSH = {
    "claude": Step("Bash", {"command": "git push origin main", "description": "push"}),
    "codex": Step(
        "exec_command",
        {"cmd": "git push", "sandbox_permissions": "require_escalated", "justification": "needed"},
    ),
}


@dataclass
class EndlessModel(ScriptedModel):
    """A model that repeats its step for ever, never answers, or breaks the connection."""

    manner: str = "loop"
    closed: threading.Event = field(default_factory=threading.Event)

    def next_call(self, request: Request) -> tuple[str, Mapping[str, Any]] | None:
        if self.manner == "die":
            raise ConnectionResetError
        step = self.steps[0]
        return (step.tool, step.arguments) if request.tools else None


@pytest.fixture(params=["claude", "codex"])
def kind(request: pytest.FixtureRequest) -> str:
    if not PROGRAMS["code" if request.param == "claude" else "codex"].is_installed:
        pytest.skip(f"{request.param} is not installed in {BIN.parent.parent.name}: run `make programs`")
    return str(request.param)


@contextmanager
def served(manner: str, kind: str) -> Iterator[ScriptedModel]:
    steps = [PUSH[kind]] if manner != "finish" else []
    model = ScriptedModel(steps) if manner in ("finish", "deny") else EndlessModel(steps, manner=manner)
    with scripted_model(model=model) as served_model:
        try:
            yield served_model
        finally:
            if isinstance(model, EndlessModel):
                model.closed.set()


def use(
    use_runners: Any, kind: str, model: ScriptedModel, home: Path, more: str = "", path: str = ""
) -> None:
    """Put a runner into force that talks to the scripted model."""
    variables = {"HOME": str(home), "PATH": f"{path}{BIN}:{os.environ['PATH']}"}
    if kind == "claude":
        variables |= {
            "ANTHROPIC_BASE_URL": model.address,
            "ANTHROPIC_API_KEY": "x",
            "CLAUDE_CODE_MAX_RETRIES": "0",
            "ENABLE_TOOL_SEARCH": "false",
        }
    else:
        variables["MODEL_KEY"] = "x"
        (home / ".codex").mkdir(exist_ok=True)
        (home / ".codex" / "config.toml").write_text(
            'model_provider = "scripted"\nmodel = "gpt-5"\n[model_providers.scripted]\nname = "scripted"\n'
            f'base_url = "{model.address}/v1"\nwire_api = "responses"\nenv_key = "MODEL_KEY"\n'
            "request_max_retries = 0\nstream_max_retries = 0\n"
        )
    environment = "\n".join(f'{name} = "{value}"' for name, value in variables.items())
    use_runners(
        f'[one]\ndescription = "x"\nkind = "{kind}"\nprogram = "{BIN / kind}"\nallow = ["everyone"]\n'
        f"{more}[one.environment]\n{environment}\n"
    )


def test_finished_run_is_done_and_its_tokens_are_those_of_the_model(kind, use_runners, execution, tmp_path):
    with served("finish", kind) as model:
        use(use_runners, kind, model, tmp_path)

        assert perform(execution) == FINAL_TEXT

    stored = AgentRun.objects.get()
    calls = len([request for request in model.requests if request.tools])
    assert (stored.verdict, stored.tokens_in, stored.tokens_out) == (Verdict.DONE, 1000 * calls, 20 * calls)
    assert stored.session_id
    assert (stored.cost is None) == (kind == "codex")


def test_refused_tool_is_not_done_although_the_program_says_so(kind, use_runners, execution, tmp_path):
    with served("deny", kind) as model:
        use(use_runners, kind, model, tmp_path)

        with pytest.raises(Final, match=r"permission for .* was not granted"):
            perform(execution)

    stored = AgentRun.objects.get()
    assert (stored.verdict, len(stored.denials)) == (Verdict.REFUSED, 1)
    assert stored.answer == FINAL_TEXT


def test_loop_is_ended_at_its_limit(kind, use_runners, execution, tmp_path):
    # Codex reports no tokens before the end of its turn, so that its only bound is time.
    limit, error, verdict = {
        "claude": ("max_tokens = 5000\n", Final, Verdict.OVER_BUDGET),
        "codex": ("max_time = 2\n", RetryLater, Verdict.TIMED_OUT),
    }[kind]
    with served("loop", kind) as model:
        use(use_runners, kind, model, tmp_path, limit)

        with pytest.raises(error):
            perform(execution)

    assert AgentRun.objects.get().verdict == verdict


def test_claude_reports_its_own_limits(use_runners, execution, tmp_path):
    if not PROGRAMS["code"].is_installed:
        pytest.skip("claude is not installed: run `make programs`")
    with served("loop", "claude") as model:
        use(use_runners, "claude", model, tmp_path, "max_money = 0.004\n")

        with pytest.raises(Final, match="limit of money"):
            perform(execution)

    assert AgentRun.objects.get().verdict == Verdict.OVER_BUDGET


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_model_that_breaks_off_is_a_failure(kind, use_runners, execution, tmp_path):
    with served("die", kind) as model:
        use(use_runners, kind, model, tmp_path, "max_time = 60\n")

        with pytest.raises(RetryLater):
            perform(execution)

    assert AgentRun.objects.get().verdict == Verdict.FAILED


@pytest.fixture
def pushes(tmp_path: Path) -> Path:
    """Put a program in the place of git that notes each push, and return its notes."""
    notes, program = tmp_path / "pushes", tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n[ "$1" = push ] && echo "$@" >> {notes}\nexit 0\n')
    program.chmod(0o700)
    return notes


def use_asking(use_runners: Any, model: ScriptedModel, home: Path, more: str = "") -> None:
    folder = home / "work"
    folder.mkdir(exist_ok=True)
    more = f'may_ask = true\ndirectory = "{folder}"\n{more}'
    use(use_runners, "claude", model, home, more, path=f"{home / 'bin'}:")


@pytest.mark.parametrize("answer", [ONCE, DENY])
def test_claude_waits_for_a_person_and_makes_the_allowed_call_once(
    answer, owner, use_runners, tmp_path, pushes
):
    if not PROGRAMS["code"].is_installed:
        pytest.skip("claude is not installed: run `make programs`")
    cluster, person = ClusterFactory(), Actor(owner, Event.Door.WEB)
    JobFactory(
        owner=owner, task="prompt", kwargs={"prompt": "Push it.", "runner": "one"}, next_run_at=clock.now()
    )
    with served("deny", "claude") as model:
        use_asking(use_runners, model, tmp_path)
        waiting = work(cluster)
        approval = Approval.objects.get()
        assert (waiting.status, pushes.exists()) == ("queued", False)
        assert approval.arguments == PUSH["claude"].arguments

        assert isinstance(answer_approval(person, approval.pk, answer, seen=approval.digest), Ok)
        done = work(cluster)

    if answer == DENY:
        assert (done, pushes.exists()) == (None, False)
        return
    assert (done.status, done.result) == ("succeeded", FINAL_TEXT)
    assert pushes.read_text() == "push origin main\n"
    first, second = AgentRun.objects.order_by("attempt")
    assert (first.verdict, second.verdict) == (Verdict.NEEDS_YOU, Verdict.DONE)
    assert first.session_id == second.session_id
    assert first.tokens_in + second.tokens_in == 1000 * len([each for each in model.requests if each.tools])
    assert first.cost == second.cost


@pytest.mark.parametrize("answer", [ONCE, DENY])
def test_claude_that_waits_for_a_person_goes_on_in_the_same_attempt(
    answer, owner, use_runners, tmp_path, pushes
):
    if not PROGRAMS["code"].is_installed:
        pytest.skip("claude is not installed: run `make programs`")
    person = Actor(owner, Event.Door.WEB)
    JobFactory(
        owner=owner, task="prompt", kwargs={"prompt": "Push it.", "runner": "one"}, next_run_at=clock.now()
    )
    with served("deny", "claude") as model:
        use_asking(use_runners, model, tmp_path, 'wait_within = "5m"\n')
        working = Working(ClusterFactory())
        approval = working.asked()
        assert (approval.arguments, pushes.exists()) == (PUSH["claude"].arguments, False)
        assert isinstance(answer_approval(person, approval.pk, answer, seen=approval.digest), Ok)
        done = working.end()

    verdict = AgentRun.objects.get().verdict
    assert done.attempt == 1
    if answer == DENY:
        assert (done.status, verdict, pushes.exists()) == ("failed", Verdict.REFUSED, False)
        return
    assert (done.status, done.result, verdict) == ("succeeded", FINAL_TEXT, Verdict.DONE)
    assert pushes.read_text() == "push origin main\n"


def test_program_asks_in_words_and_its_session_goes_on_with_the_answer(kind, owner, use_runners, tmp_path):
    cluster, person = ClusterFactory(), Actor(owner, Event.Door.WEB)
    JobFactory(
        owner=owner, task="prompt", kwargs={"prompt": "Send it.", "runner": "one"}, next_run_at=clock.now()
    )
    folder = tmp_path / "work"
    folder.mkdir()
    model = ScriptedModel([], final_texts=["Two drafts.\nNEEDS YOU: Which one? [first | second]"])
    with scripted_model(model=model):
        use(use_runners, kind, model, tmp_path, f'may_ask = true\ndirectory = "{folder}"\n')
        waiting = work(cluster)
        approval = Approval.objects.get()
        assert (waiting.status, approval.question, approval.choices) == (
            "queued",
            "Which one?",
            ["first", "second"],
        )

        answered = answer_approval(person, approval.pk, REPLY, seen=approval.digest, text="second")
        assert isinstance(answered, Ok)
        done = work(cluster)

    assert (done.status, done.result) == ("succeeded", FINAL_TEXT)
    first, second = AgentRun.objects.order_by("attempt")
    assert (first.verdict, second.verdict) == (Verdict.NEEDS_YOU, Verdict.DONE)
    assert first.session_id == second.session_id
    # The session has the prompt, what was said, and the answer.
    last = [request for request in model.requests if request.tools][-1]
    for text in ("Send it.", "Two drafts.", "<answer>"):
        assert text in last.text
    assert first.tokens_in + second.tokens_in == 1000 * len([each for each in model.requests if each.tools])


def test_session_that_goes_on_counts_only_its_own_tokens(use_runners, execution, tmp_path):
    if not PROGRAMS["code"].is_installed:
        pytest.skip("claude is not installed: run `make programs`")
    with served("finish", "claude") as model:
        use(use_runners, "claude", model, tmp_path, f'session = "continue"\ndirectory = "{tmp_path}"\n')
        perform(execution)
        execution.attempt = 2
        perform(execution)

    first, second = AgentRun.objects.order_by("attempt")
    assert first.session_id == second.session_id
    assert first.tokens_in == second.tokens_in == 1000
    assert first.cost == second.cost
