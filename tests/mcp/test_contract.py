"""The recorded contract with agents, and its completeness."""

import json
import re

import pytest
from pydantic import ValidationError

from schedules.mcp.offers import CORE, OFFERS
from schedules.mcp.registration import build_tool
from tests.mcp.contract import current, recorded

TOOLS = {tool["name"]: tool for tool in recorded()["tools"]}

CREATING = ["schedule_job", "copy_job", "schedule", "schedule_notification", "schedule_cron_notification"]


def test_server_keeps_the_recorded_contract():
    assert current() == recorded(), "run `python -m tests.mcp.contract`, and review the difference"


def test_every_tool_describes_itself_and_its_arguments():
    hints = {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
    for tool in TOOLS.values():
        assert tool["title"]
        assert 40 < len(tool["description"]) < 600, tool["name"]
        assert set(tool["annotations"]) == hints
        assert tool["inputSchema"]["additionalProperties"] is False
        for name, schema in tool["inputSchema"]["properties"].items():
            assert len(schema["description"]) >= 8, (tool["name"], name)


def test_optional_arguments_may_be_null_though_their_schemas_do_not_say_so():
    for offer in OFFERS:
        schema = TOOLS[offer.name]["inputSchema"]
        arguments = build_tool(offer).fn_metadata.arg_model
        optional = dict.fromkeys(set(schema["properties"]) - set(schema.get("required", [])))

        if refused := problems(arguments, optional):
            assert {problem["type"] for problem in refused} == {"missing"}, offer.name
        assert not re.search(r"'(title|default)': |'null'|None", str(list(schema["properties"].values())))


def problems(arguments, given):
    try:
        arguments.model_validate(given)
    except ValidationError as error:
        return error.errors()
    return []


def test_creating_tools_take_an_idempotency_key():
    for name in CREATING:
        assert "idempotency_key" in TOOLS[name]["inputSchema"]["properties"], name


def test_annotations_match_the_effects_of_each_tool():
    def having(**hints):
        return {name for name, tool in TOOLS.items() if hints.items() <= tool["annotations"].items()}

    assert having(destructiveHint=True) == {
        "cancel_job",
        "schedule_cancel",
        "delete_schedule",
        "bulk_jobs",
        "stop_agents",
    }
    assert having(openWorldHint=True) == {"send_push_notification", "run_job", "run_task"}
    assert having(readOnlyHint=True) == {
        "list_jobs",
        "job_status",
        "schedule_list",
        "list_scheduled_notifications",
        "get_current_time",
        "preview_schedule",
        "upcoming",
        "list_runs",
        "list_changes",
        "why",
        "get_preferences",
    }


def test_descriptions_name_only_tools_that_exist():
    words = " ".join(tool["description"] for tool in TOOLS.values()) + recorded()["instructions"]

    mentioned = set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", words))

    known = {*TOOLS, *(name for tool in TOOLS.values() for name in tool["inputSchema"]["properties"])}
    assert mentioned - known <= {"next_runs", "lease_until", "schedule_id", "message_id", "user_timezone"}


def as_sent(schema):
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


# About four characters are a token: 6,500 tokens for all tools, and 3,800 for the everyday ones.
@pytest.mark.parametrize(("names", "budget"), [(TOOLS, 26_000), (CORE, 15_200)], ids=["all", "core"])
def test_what_models_read_about_the_tools_fits_the_budget(names, budget):
    cost = sum(
        len(name) + len(tool["description"]) + len(as_sent(tool["inputSchema"]))
        for name, tool in TOOLS.items()
        if name in names
    )

    assert cost <= budget


def test_only_tools_with_a_contract_have_schemas_of_answers_with_what_a_client_can_check():
    contracted = {offer.name for offer in OFFERS if offer.family != "more"}
    assert {name for name, tool in TOOLS.items() if "outputSchema" in tool} == contracted
    assert {TOOLS[name]["outputSchema"]["type"] for name in contracted} == {"object"}
    sent = [as_sent(TOOLS[name]["outputSchema"]) for name in contracted]

    # Properties may have these names, but no schema has a text of its own.
    assert not [text for text in sent if re.search(r'"(title|description)":"', text)]
    assert sum(map(len, sent)) <= 14_500
