"""Authentication, scopes and call limits: every tool with every kind of token."""

import inspect
from datetime import timedelta
from types import SimpleNamespace

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.db import InterfaceError, OperationalError, connection
from mcp import MCPError
from mcp.server.mcpserver.exceptions import ResourceError

from cronty_site.asgi import build_application
from schedules import clock, services
from schedules.mcp import resources, subscriptions
from schedules.mcp.auth import (
    CrontyTokens,
    call_rate,
    caller_of,
    current_caller,
    local_caller,
    set_local_caller,
)
from schedules.mcp.offers import OFFERS
from schedules.models import Event, Execution, Job, Token
from schedules.result import Ok
from schedules.services import Actor, issue_token
from schedules.services.people import tokens
from schedules.services.people.tokens import CallRate, report_calls
from tests.factories import ExecutionFactory, JobFactory, TokenFactory
from tests.mcp.agents import InMemory, ToolRefusalError, answer_of, connected
from tests.mcp.examples import examples
from tests.mcp.over_http import OverHttp, browser, http_client, running

SECRET = "Olga's secret"


def token_for(user, name="laptop", **options) -> tuple[Token, str]:
    match issue_token(user, name=name, **options):
        case Ok(issued):
            return issued.token, issued.text
    raise AssertionError("not issued")


@pytest.fixture
def calls_on_olgas_rows(owner):
    """A call of every tool, on a job, a prompt and a waiting prompt of Olga's."""
    job = JobFactory(owner=owner, name=SECRET, task="notify", kwargs={"message": SECRET, "topic": "olga"})
    prompt = JobFactory(owner=owner, once=True, name=SECRET, task="prompt", kwargs={"prompt": SECRET})
    inbox = JobFactory(
        owner=owner,
        once=True,
        status="running",
        next_run_at=None,
        name=SECRET,
        task="prompt",
        kwargs={"prompt": SECRET},
    )
    waiting = ExecutionFactory(job=inbox, status="waiting")
    return examples(job, prompt, waiting)


def state_of_everything():
    jobs = list(Job.objects.order_by("pk").values("pk", "revision", "status", "name", "kwargs", "deleted_at"))
    rows = list(Execution.objects.order_by("pk").values("pk", "status", "lease_until", "result"))
    return jobs, rows, Event.objects.exclude(verb__contains="token").count()


def call_every_tool(token: str, calls, era: str = "modern"):
    async def call_all():
        async with running(build_application()) as app, browser(app, token) as http:

            async def work(client):
                return {name: await client.call_tool(name, arguments) for name, arguments in calls.items()}

            return await connected(lambda: http_client(http, era), work)

    return async_to_sync(call_all)()


def test_write_token_only_writes(owner, calls_on_olgas_rows, settings):
    settings.NTFY_URL = "http://127.0.0.1:1"
    _, text = token_for(owner, scopes=["write"])

    answers = call_every_tool(text, calls_on_olgas_rows)

    for offer in OFFERS:
        # A refusal has a structure, too; a tool that may not be called has none.
        assert (answers[offer.name].structured_content is None) is (offer.scope == "read"), offer.name


def test_token_names_the_agent_and_records_its_use(owner, era):
    token, text = token_for(owner, name="kitchen tablet", kind="heartbeat")

    OverHttp(era, text).call("schedule", at="in 1 hour", prompt="x")

    assert Job.objects.get().made_by == "kitchen tablet"
    token.refresh_from_db()
    assert token.last_used_at is not None


def test_token_of_some_families_is_offered_only_those(owner, era):
    _, text = token_for(owner, families=["prompts"])
    agent = OverHttp(era, text)

    names = {tool.name for tool in agent.do(lambda client: client.list_tools()).tools}

    assert names == {offer.name for offer in OFFERS if offer.family == "prompts"}
    with pytest.raises(ToolRefusalError, match="Unknown tool: list_jobs"):
        agent.call("list_jobs")


def test_verified_token_does_not_contain_the_secret(owner):
    _, text = token_for(owner)

    verified = async_to_sync(CrontyTokens().verify_token)(text)

    assert verified.token == ""
    assert text not in repr(verified)
    assert verified.caller.actor.label == "laptop"
    assert async_to_sync(CrontyTokens().verify_token)("cronty_00000000_nonsense") is None


@pytest.mark.parametrize("is_deleted", [False, True], ids=["deactivated", "deleted"])
def test_local_server_of_a_user_who_is_gone_stops_at_its_next_call(agent: Actor, is_deleted: bool):
    set_local_caller(caller := local_caller(agent.user))
    try:
        memory = InMemory("modern")
        assert memory.call("list_jobs")["jobs"] == []
        users = get_user_model().objects.filter(pk=agent.user.pk)
        users.delete() if is_deleted else users.update(is_active=False)

        for tool, arguments in (("list_jobs", {}), ("run_job", {"job_id": "x"}), ("get_current_time", {})):
            with pytest.raises(ToolRefusalError, match="olga was deactivated"):
                memory.call(tool, **arguments)
        assert not subscriptions._is_valid(caller)
        with pytest.raises(ResourceError, match="deactivated"):
            resources._guarded(lambda: "secret")()
    finally:
        set_local_caller(None)


def test_caller_without_a_token_is_the_user_of_the_process(agent: Actor):
    assert current_caller() is None
    set_local_caller(local_caller(agent.user, scopes=["read"]))
    try:
        assert current_caller().actor.user == agent.user
        with pytest.raises(ToolRefusalError, match="needs the scope write"):
            InMemory("modern").call("cancel_job", job_id="x")
    finally:
        set_local_caller(None)
    with pytest.raises(ToolRefusalError, match="needs the scope read"):
        InMemory("modern").call("list_jobs")


def test_each_token_has_its_own_bucket_of_calls_that_refills(owner, settings, monkeypatch):
    settings.CRONTY_MCP_CALLS_PER_MINUTE = 60
    moment = [100.0]
    monkeypatch.setattr("schedules.services.people.tokens.time.monotonic", lambda: moment[0])
    rate, first, second = (
        CallRate(),
        caller_of(TokenFactory(owner=owner)),
        caller_of(TokenFactory(owner=owner)),
    )

    assert [rate.wait(first) for _ in range(60)] == [0.0] * 60
    assert rate.wait(first) == 1.0
    assert rate.wait(second) == 0.0
    moment[0] += 1
    assert rate.wait(first) == 0.0
    assert rate.wait(first) == 1.0


def test_calls_to_two_processes_count_together_within_five_percent(owner, settings, monkeypatch):
    settings.CRONTY_MCP_CALLS_PER_MINUTE = 200
    moment = [100.0]
    monkeypatch.setattr(tokens.time, "monotonic", lambda: moment[0])
    token = TokenFactory(owner=owner)
    processes = [CallRate(), CallRate()]
    accepted, writes = 0, 0

    def call(rate: CallRate) -> bool:
        """Do what one request over HTTP does: read the token, exchange, count."""
        nonlocal writes
        token.refresh_from_db()
        if calls := rate.exchange(token):
            report_calls(token.pk, calls)
            writes += 1
        return rate.wait(caller_of(token)) == 0

    for rate in processes:
        call(rate)
    moment[0] += 60
    for _ in range(200):
        accepted += sum(call(rate) for rate in processes)
    assert 200 <= accepted <= 220
    assert writes <= 2 * 20

    accepted = 0
    for _ in range(200):
        moment[0] += 0.3
        accepted += sum(call(rate) for rate in processes)
    assert 180 <= accepted <= 220


def test_restored_count_and_a_stale_row_take_nothing_away(owner, settings):
    settings.CRONTY_MCP_CALLS_PER_MINUTE = 10
    token, rate = TokenFactory(owner=owner, call_count=500), CallRate()

    assert rate.exchange(token) == 0
    assert rate.wait(caller_of(token)) == 0
    assert rate.exchange(token) == 1
    # The same row again, as another thread may have read it before the report.
    assert rate.exchange(token) == 0
    assert [rate.wait(caller_of(token)) for _ in range(9)] == [0] * 9


def test_too_many_calls_get_a_normal_answer_in_the_shape_of_the_family(
    caller, settings, calls_on_olgas_rows, monkeypatch
):
    settings.CRONTY_MCP_CALLS_PER_MINUTE = 1
    monkeypatch.setattr(call_rate, "_buckets", {})
    # Only there: the event loop needs a clock that runs.
    monkeypatch.setattr(tokens, "time", SimpleNamespace(monotonic=lambda: 100.0))
    agent = InMemory("modern")
    agent.call("list_jobs")
    before = state_of_everything()

    for name, arguments in calls_on_olgas_rows.items():
        answer = answer_of(agent.raw(name, arguments))
        words = answer if isinstance(answer, str) else answer["error"]
        assert "at most 1 calls a minute; try again in" in words, name
        assert isinstance(answer, str) or 0 < answer["retry_after"] <= 60
    assert state_of_everything() == before
    with pytest.raises(ToolRefusalError, match="at most 1 calls a minute"):
        agent.call("job_status", job="an argument it does not have")
    with pytest.raises(MCPError, match="at most 1 calls a minute"):
        agent.do(lambda client: client.read_resource("agenda://today"))


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_database_outage_is_reported_without_claims_about_a_change(
    caller, calls_on_olgas_rows, caplog, error
):
    def fail(*args, **kwargs):
        raise error("no such table in /var/lib")

    agent = InMemory("modern")

    with connection.execute_wrapper(fail):
        results = {name: agent.raw(name, arguments) for name, arguments in calls_on_olgas_rows.items()}

    scopes = {offer.name: offer.scope for offer in OFFERS}
    parameters_of = {offer.name: inspect.signature(offer.function).parameters for offer in OFFERS}
    for name, result in results.items():
        words = result.content[0].text
        is_change = scopes[name] == "write"
        # The contract has its own answer for a failed deletion.
        assert result.is_error == (name != "delete_schedule")
        assert ("may or may not have been" if is_change else "try again in a moment") in words, name
        assert "/var/lib" not in words
        # Only tools that take a key advise one.
        assert ("idempotency_key" in words) == (is_change and "idempotency_key" in parameters_of[name]), name
    assert "The database did not answer" in caplog.text


def test_issue_token_prints_only_the_token(owner, capsys):
    call_command(
        "issue_token",
        user="olga",
        name="laptop",
        scopes="read",
        expires_in="365d",
        kind="heartbeat",
        tools="jobs",
    )

    out = capsys.readouterr().out
    token = services.verify_token(out.strip())
    assert out.count("\n") == 1
    assert (token.name, token.scopes, token.kind, token.families) == (
        "laptop",
        ["read"],
        "heartbeat",
        ["jobs"],
    )
    assert timedelta(days=364) < token.expires_at - clock.now() <= timedelta(days=365)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"user": "nobody"}, "no active user called 'nobody'"),
        ({"scopes": "admin"}, "scopes: Choose from"),
        ({"tools": "everything"}, "families: Choose from"),
        ({"expires_in": "soon"}, "--expires-in: couldn't read that duration"),
        ({"name": ""}, "name: Give it a name"),
    ],
)
def test_issue_token_reports_invalid_arguments(owner, options, words):
    with pytest.raises(CommandError, match=words):
        call_command("issue_token", **{"user": "olga", "name": "laptop", **options})
    assert not Token.objects.exists()
