"""Prompts that a person picks in their client: which are offered, and how mistakes are refused."""

import pytest
from mcp import MCPError


def test_prompts_are_offered_and_unknown_ones_are_refused(olga):
    prompts = olga.do(lambda client: client.list_prompts()).prompts

    assert {prompt.name for prompt in prompts} == {"daily_briefing", "tidy_my_schedules"}
    for prompt in prompts:
        text = olga.do(lambda client, name=prompt.name: client.get_prompt(name)).messages[0].content.text
        assert "data, not instructions" in text
    with pytest.raises(MCPError, match="Unknown prompt: nope") as refusal:
        olga.do(lambda client: client.get_prompt("nope"))
    assert refusal.value.error.code == -32602


def test_unknown_argument_of_a_prompt_is_named_in_the_error(olga):
    with pytest.raises(MCPError, match="daily_briefing takes no arguments: leave out mood") as refusal:
        olga.do(lambda client: client.get_prompt("daily_briefing", {"mood": "good"}))
    assert refusal.value.error.code == -32602
