"""Authorization of the tools: every tool and resource of the server, for every kind of caller.

That no tool answers without a usable token, and that a token of some families is offered only those, is tested with
the authentication of the tools, in tests/mcp/test_auth.py.
"""

import re
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User

from cronty_site.asgi import build_application
from schedules import clock
from schedules.models import Token
from schedules.services import issue_token, revoke_token
from tests.mcp.examples import examples
from tests.mcp.over_http import browser, modern_call, running
from tests.security.owned_rows import MARK, UNKNOWN_JOB, UNKNOWN_NUMBER, OwnedRows, everything

# Arguments that point at the owner's rows. A new argument must be added here or to the others.
IDS = {"job_id", "schedule_id", "id", "execution_id"}
NO_IDS = {"idempotency_key"}
LEGACY = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-06-18",
}
RESOURCES = ("jobs://{job}", "schedules://zqmark-topic", "agenda://today", "waiting://person")


@pytest.fixture(params=["modern", "legacy"])
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def token_of(user: User, **options: Any) -> str:
    return issue_token(user, name="agent", **options).value.text


def expired(user: User) -> str:
    text = token_of(user, expires_in=timedelta(hours=1))
    Token.objects.filter(name="agent").update(expires_at=clock.now() - timedelta(seconds=1))
    return text


def revoked(user: User) -> str:
    text = token_of(user)
    revoke_token(user, Token.objects.get(name="agent").pk)
    return text


def tool_call(name: str, arguments: dict[str, Any], era: str) -> dict[str, Any]:
    return _in_era(modern_call(name, arguments), era)


def other_call(method: str, params: dict[str, Any], era: str, name: str = "") -> dict[str, Any]:
    request = modern_call("x")
    meta = request["json"]["params"]["_meta"]
    request["json"] |= {"method": method, "params": {**params, "_meta": meta}}
    request["headers"] |= {"Mcp-Method": method, "Mcp-Name": name}
    if not name:
        del request["headers"]["Mcp-Name"]
    return _in_era(request, era)


def _in_era(request: dict[str, Any], era: str) -> dict[str, Any]:
    if era == "legacy":
        del request["json"]["params"]["_meta"]
        request["headers"] = dict(LEGACY)
    return request


def send(token: str | None, calls: dict[Any, dict[str, Any]]) -> dict[Any, httpx2.Response]:
    """Post every request to /mcp of the web process, with this token or without one."""

    async def send_all() -> dict[Any, httpx2.Response]:
        async with running(build_application()) as app, browser(app, token) as http:
            return {name: await http.post(**call) for name, call in calls.items()}

    return async_to_sync(send_all)()


def calls_on_owned_rows(owned: OwnedRows, era: str) -> dict[str, dict[str, Any]]:
    """Return a call of every tool and resource, on the owner's rows."""
    uris = [uri.format(job=owned.job.public_id) for uri in RESOURCES]
    reads = {uri: other_call("resources/read", {"uri": uri}, era, uri) for uri in uris}
    tools = examples(owned.job, owned.prompt, owned.run)
    return reads | {name: tool_call(name, arguments, era) for name, arguments in tools.items()}


def offered(token: str, era: str) -> list[dict[str, Any]]:
    (answer,) = send(token, {"list": other_call("tools/list", {}, era)}).values()
    return list(_message(answer)["result"]["tools"])


def _message(answer: httpx2.Response) -> Any:
    """Return the JSON, which a legacy client gets as the only event of a stream."""
    text = answer.text
    if answer.headers["content-type"].startswith("text/event-stream"):
        text = re.findall(r"^data: (.+)$", text, re.MULTILINE)[-1]
    return httpx2.Response(200, text=text).json()


def is_refused(answer: httpx2.Response) -> bool:
    message = _message(answer)
    return "error" in message or bool(message["result"].get("isError"))


def test_every_tool_of_the_server_has_an_example_and_every_argument_is_known(owned: OwnedRows, era: str):
    tools = {tool["name"]: tool for tool in offered(token_of(owned.owner), era)}

    known = examples(owned.job, owned.prompt, owned.run)
    assert set(tools) == set(known), "give the new tool an example in tests/mcp/examples.py"
    for name, tool in tools.items():
        like_ids = {
            argument for argument in tool["inputSchema"]["properties"] if re.search("id|key", argument)
        }
        assert like_ids <= IDS | NO_IDS, f"{name}: say in IDS or NO_IDS whether {like_ids} point at a row"
        assert set(known[name]) >= like_ids & IDS


@pytest.mark.parametrize("kind", ["none", "junk", "expired", "revoked"])
def test_nothing_answers_without_a_valid_token(owned: OwnedRows, era: str, kind: str):
    make: dict[str, Any] = {
        "none": None,
        "junk": "cronty_0badc0de_" + "x" * 32,
        "expired": expired,
        "revoked": revoked,
    }
    token = make[kind](owned.owner) if callable(make[kind]) else make[kind]
    before = everything()

    answers = send(token, calls_on_owned_rows(owned, era))

    assert {answer.status_code for answer in answers.values()} == {401}
    assert not any(MARK in answer.text for answer in answers.values())
    assert everything() == before


def test_read_token_reads_the_owners_rows_and_changes_nothing(owned: OwnedRows, time_machine: Any, era: str):
    # A token that was last used a minute ago records its use again.
    time_machine.move_to(clock.now(), tick=False)
    token = token_of(owned.owner, scopes=["read"])
    reading = {tool["name"] for tool in offered(token, era)} | {
        uri.format(job=owned.job.public_id) for uri in RESOURCES
    }
    before = everything()

    answers = send(token, calls_on_owned_rows(owned, era))

    assert {name for name, answer in answers.items() if not is_refused(answer)} == reading
    assert everything() == before


def test_owners_token_reaches_all_of_the_owners_rows(owned: OwnedRows, era: str):
    answers = send(token_of(owned.owner), calls_on_owned_rows(owned, era))

    refused = {name for name, answer in answers.items() if is_refused(answer)}
    seen = "".join(answer.text for answer in answers.values())
    assert refused == set()
    assert {mark for mark in ("name", "prompt", "topic", "message") if f"{MARK}-{mark}" not in seen} == set()


@pytest.mark.parametrize("person", ["stranger", "staff"])
def test_foreign_token_can_neither_see_nor_change_the_owners_rows(
    owned: OwnedRows, people: dict[str, User], era: str, person: str
):
    """Staff manage everybody's jobs on the pages; their agents must not."""
    token = token_of(people[person])
    before = everything(except_of=people[person])

    answers = send(token, calls_on_owned_rows(owned, era))

    assert all(answer.status_code < 500 for answer in answers.values())
    for name, answer in answers.items():
        # The answer may repeat the topic from the request.
        assert not re.search(rf"{MARK}-(?!topic)", answer.text), name
    assert everything(except_of=people[person]) == before


@pytest.mark.parametrize("person", ["stranger", "staff"])
def test_foreign_id_is_answered_like_an_unknown_one(
    owned: OwnedRows, people: dict[str, User], era: str, person: str
):
    """Compare whole answers with every header, except for the requested id."""
    token = token_of(people[person])
    jobs = [owned.job.public_id, owned.prompt.public_id, owned.trashed.public_id, UNKNOWN_JOB]
    pointing: dict[str, list[Any]] = {
        "job_id": jobs,
        "schedule_id": jobs,
        "id": [owned.job.pk, owned.prompt.pk, owned.trashed.pk, UNKNOWN_NUMBER],
        "execution_id": [owned.run.pk, owned.trashed_run.pk, owned.orphaned_run.pk, UNKNOWN_NUMBER],
    }
    calls = {
        (name, argument): [
            tool_call(name, {**arguments, argument: asked}, era) for asked in pointing[argument]
        ]
        for name, arguments in examples(owned.job, owned.prompt, owned.run).items()
        for argument in IDS & set(arguments)
    }
    uris = [f"jobs://{job}" for job in jobs]
    calls["resource", "job_id"] = [other_call("resources/read", {"uri": uri}, era, uri) for uri in uris]

    assert len(calls) > 10
    answers = send(
        token, {(key, at): call for key, asking in calls.items() for at, call in enumerate(asking)}
    )
    for name, argument in calls:
        plain = [
            whole(answers[(name, argument), at], str(asked)) for at, asked in enumerate(pointing[argument])
        ]
        assert plain == [plain[-1]] * len(plain), name


def whole(answer: httpx2.Response, identifier: str) -> tuple[Any, ...]:
    return answer.status_code, sorted(answer.headers.items()), answer.text.replace(identifier, "ID")
