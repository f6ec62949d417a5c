"""The channel of Claude Code: a due prompt reaches the running session once, and one session gets it."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from schedules import clock
from schedules.mcp.claude_channel import ClaudeChannel, message_of
from schedules.services.runs.agent_stops import stop_agents
from schedules.services.runs.prompts import due_prompts
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


def test_without_the_option_nothing_is_declared(own_site):
    with session(own_site) as plain:
        assert "claude/channel" not in str(plain.hello["capabilities"])


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
    return [row.pk for row in channel._new()]


def test_prompt_is_told_once(caller, prompt):
    channel = ClaudeChannel()

    assert told(channel) == [prompt.pk]
    assert told(channel) == []


def test_claimed_prompts_those_of_others_and_stopped_agents_are_not_told(caller, actor, prompt):
    ExecutionFactory(
        job=JobFactory(task="prompt", kwargs={"prompt": "Not yours"}), status="waiting", finished_at=None
    )
    assert [row.pk for row in due_prompts(actor, (), 20)] == [prompt.pk]

    stop_agents(actor)
    assert told(ClaudeChannel()) == []


def test_meta_has_names_that_the_client_takes(prompt):
    meta = message_of(prompt).params["meta"]

    assert all(name.isidentifier() and isinstance(value, str) for name, value in meta.items())
    assert clock.now() >= prompt.scheduled_for
