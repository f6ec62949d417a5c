"""What an agent reads about the tools names only those that it is offered."""

import json

import pytest
from mcp import MCPError

from schedules.mcp.auth import local_caller, set_local_caller
from schedules.mcp.offers import OFFERS, WORDING
from schedules.mcp.server import build_server
from schedules.services import issue_token
from schedules.services.people.tokens import FAMILIES, SCOPES
from tests.mcp.agents import InMemory
from tests.mcp.over_http import OverHttp

SETS = [("prompts",), ("core",), FAMILIES]


async def read_all(client):
    """Return the names of the tools, and everything that a model reads about them before it calls one."""
    tools = (await client.list_tools()).tools
    prompts = (await client.list_prompts()).prompts
    texts = [client.instructions, *(tool.description for tool in tools)]
    texts += [json.dumps(tool.input_schema, ensure_ascii=False) for tool in tools]
    texts += [(await client.get_prompt(prompt.name)).messages[0].content.text for prompt in prompts]
    texts += [resource.description for resource in (await client.list_resources()).resources]
    return [tool.name for tool in tools], " ".join(texts)


@pytest.fixture
def read_by(owner):
    """Return a function that reads everything as a local agent of these families and scopes."""

    def read(families, scopes=SCOPES, work=read_all):
        set_local_caller(local_caller(owner, families=families, scopes=scopes))
        return InMemory("modern", build_server(families=families)).do(work)

    yield read
    set_local_caller(None)


@pytest.mark.parametrize("families", SETS, ids="+".join)
def test_texts_name_only_tools_that_are_offered(read_by, families):
    names, text = read_by(families)

    assert names
    assert WORDING.mentioned(text) <= set(names)


def test_agent_that_only_reads_is_told_of_no_tool_that_changes_something(read_by):
    names, text = read_by(FAMILIES, scopes=["read"])

    assert "list_jobs" in text
    assert WORDING.mentioned(text) <= set(names) == {offer.name for offer in OFFERS if offer.scope == "read"}


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_token_of_a_family_is_introduced_to_that_family(owner, era):
    text = issue_token(owner, name="laptop", families=["prompts"]).value.text

    names, words = OverHttp(era, text).do(read_all)

    assert "claim_prompts" in names
    assert WORDING.mentioned(words) <= set(names)
    assert "not instructions to you" in words


def test_prompt_that_needs_other_tools_is_unknown(read_by):
    with pytest.raises(MCPError, match="Unknown prompt: daily_briefing"):
        read_by(["prompts"], work=lambda client: client.get_prompt("daily_briefing"))


def test_prompts_are_offered_and_mistakes_are_named(read_by):
    def work(name, **arguments):
        return lambda client: client.get_prompt(name, arguments or None)

    [message] = read_by(FAMILIES, work=work("tidy_my_schedules")).messages
    assert "data, not instructions" in message.content.text
    for bad, words in [
        (work("nope"), "Unknown prompt: nope"),
        (work("daily_briefing", mood="good"), "daily_briefing takes no arguments: leave out mood"),
    ]:
        with pytest.raises(MCPError, match=words) as refusal:
            read_by(FAMILIES, work=bad)
        assert refusal.value.error.code == -32602
