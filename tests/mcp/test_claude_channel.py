"""The channel of Claude Code: a due prompt reaches the running session once, and one session gets it."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

import pytest

from schedules import clock
from schedules.mcp import claude_channel
from schedules.mcp.claude_channel import ClaudeChannel, message_of
from schedules.services.runs import prompts
from schedules.services.runs.agent_stops import stop_agents
from schedules.services.runs.prompts import claim_prompts, due_prompts, release_prompt
from tests.documented import blocks
from tests.factories import ExecutionFactory, JobFactory
from tests.mcp.processes import Site, prepared
from tests.waiting import PATIENCE

ADD_PROMPT = """
from datetime import timedelta
import django
django.setup()
from django.contrib.auth.models import User
from schedules import clock
from schedules.models import Execution, Job
from schedules.models.jobs import new_public_id
now = clock.now()
job = Job.objects.create(
    owner=User.objects.get(username="olga"), public_id=new_public_id("job", now), name="In\\x1b[31mbox", task="prompt",
    kwargs={"prompt": "Read my inbox"}, trigger_type="cron", cron="0 7 * * *", next_run_at=now + timedelta(hours=9),
    created_at=now, updated_at=now,
)
run = Execution.of(job, now, status="waiting", attempt=1, started_at=now)
run.save()
print(run.pk)
"""
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "claude", "version": "2"},
}


@pytest.fixture
def own_site(tmp_path) -> Iterator[Site]:
    with prepared(tmp_path) as site:
        yield site


class Session:
    """A session that has started the server and reads its lines."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self.hello = self.ask("initialize", HELLO)
        self._send({"method": "notifications/initialized"})

    def ask(self, method: str, params: dict[str, Any] | None = None) -> Any:
        self._send({"id": 7, "method": method, "params": params or {}})
        return next(each["result"] for each in self._lines() if each.get("id") == 7)

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})["structuredContent"]

    def wait_for_push(self) -> dict[str, Any]:
        return next(
            each["params"] for each in self._lines() if each.get("method") == "notifications/claude/channel"
        )

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()

    def _lines(self) -> Iterator[Any]:
        assert self._process.stdout
        for line in self._process.stdout:
            yield json.loads(line)


@contextmanager
def session(site: Site, *arguments: str) -> Iterator[Session]:
    process = site.start("mcp_serve", "--user", "olga", *arguments)
    try:
        yield Session(process)
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)


def add_prompt(site: Site) -> str:
    process = site.start_python("-c", ADD_PROMPT)
    out, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, error.decode()
    return out.decode().strip()


def test_due_prompt_is_pushed_to_every_session_and_one_of_them_gets_it(own_site):
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(session(own_site, "--claude-channel", "--name", name))
            for name in ("one", "two")
        )
        assert first.hello["capabilities"]["experimental"] == {"claude/channel": {}}
        run = add_prompt(own_site)

        pushed = [each.wait_for_push() for each in (first, second)]
        claimed = [each.call("claim_prompts")["prompts"] for each in (first, second)]

        assert [each["meta"]["run"] for each in pushed] == [run, run]
        assert "Call claim_prompts" in pushed[0]["content"]
        assert "Read my inbox" not in pushed[0]["content"]
        assert "\x1b" not in pushed[0]["content"]
        assert [len(each) for each in claimed] == [1, 0]
        assert "Read my inbox" in str(claimed[0])


@pytest.mark.verify
def test_without_the_option_nothing_is_declared(own_site):
    with session(own_site) as plain:
        assert "claude/channel" not in str(plain.hello["capabilities"])


@pytest.mark.verify
def test_page_starts_a_server_with_a_channel(own_site):
    *_, shown = blocks("docs/how-to/events.md", "json")
    command = json.loads(shown.text)["mcpServers"]["cronty"]
    assert (command["command"], command["args"][0]) == ("cronty", "mcp")

    with session(own_site, *command["args"][1:]) as started:
        assert "claude/channel" in started.hello["capabilities"]["experimental"]


@pytest.fixture
def prompt(owner):
    job = JobFactory(owner=owner, task="prompt", kwargs={"prompt": "Read my inbox"}, name="Inbox")
    return ExecutionFactory(job=job, status="waiting", attempt=1, finished_at=None)


def told(channel):
    return [row.pk for row in channel._next_prompts()]


def test_prompt_is_told_once(caller, prompt):
    channel = ClaudeChannel()

    assert told(channel) == [prompt.pk]
    assert told(channel) == []


def test_prompt_is_told_again_after_its_lease_has_ended(caller, actor, prompt, time_machine):
    channel = ClaudeChannel()
    told(channel)

    claim_prompts(actor, lease=timedelta(minutes=1))
    assert told(channel) == []
    time_machine.move_to(clock.now() + timedelta(minutes=2))
    assert told(channel) == [prompt.pk]
    claim_prompts(actor)
    assert told(channel) == []
    release_prompt(actor, prompt.pk)
    assert told(channel) == [prompt.pk]


def test_many_prompts_that_were_told_hide_no_newer_one(caller, actor, prompt, monkeypatch):
    for module in (prompts, claude_channel):
        monkeypatch.setattr(module, "MAX_UNCLAIMED", 3)
    monkeypatch.setattr(claude_channel, "MAX_PER_POLL", 2)
    channel = ClaudeChannel()

    rows = [prompt]
    for number in range(1, 8):
        at = prompt.scheduled_for + timedelta(seconds=number // 3)
        rows.append(
            ExecutionFactory(
                job=prompt.job,
                status="waiting",
                attempt=1,
                finished_at=None,
                scheduled_for=at,
                cause="manual",
            )
        )
    looks = [told(channel) for _ in range(12)]

    assert max(map(len, looks)) == 2
    assert sorted(key for look in looks for key in look) == [row.pk for row in rows]
    assert not any(told(channel) for _ in range(5))


def test_session_that_claims_nothing_is_told_of_a_limited_number(caller, prompt, monkeypatch):
    monkeypatch.setattr(claude_channel, "MAX_ANNOUNCED", 1)
    channel = ClaudeChannel()
    told(channel)
    ExecutionFactory(job=prompt.job, status="waiting", attempt=1, finished_at=None, cause="manual")

    assert not any(told(channel) for _ in range(3))


def test_claimed_prompts_those_of_others_and_stopped_agents_are_not_told(caller, actor, prompt):
    ExecutionFactory(
        job=JobFactory(task="prompt", kwargs={"prompt": "Not yours"}), status="waiting", finished_at=None
    )
    assert [due.pk for due in due_prompts(actor)] == [prompt.pk]

    stop_agents(actor)
    assert told(ClaudeChannel()) == []


def test_meta_has_names_that_the_client_takes(prompt):
    meta = message_of(prompt).params["meta"]

    assert all(name.isidentifier() and isinstance(value, str) for name, value in meta.items())
    assert clock.now() >= prompt.scheduled_for
