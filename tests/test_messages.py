"""Every refusal of a service has words at every door."""

import pytest

from cronty_site.terminal import messages as terminal
from schedules.api import messages as api
from schedules.mcp import messages as mcp
from schedules.result import Code, Err
from schedules.web import messages as web

DOORS = [mcp, web, terminal, api]


def refusal(code: Code) -> Err:
    return Err(
        code,
        "job_1_1",
        state="paused",
        limit=1234,
        planned=1.5,
        added=2.5,
        until="2026-02-02 10:00:00 UTC",
        matches=("job_2_2", "job_3_3"),
        reason="Agents may not use it.",
        errors={"name": ["Too long."]},
        retry_after=2.5,
    )


@pytest.mark.parametrize("door", DOORS, ids=["mcp", "web", "terminal", "api"])
@pytest.mark.parametrize("code", Code, ids=lambda code: code.name)
def test_every_door_has_words_for_every_code(door, code):
    text = door.message_of(refusal(code))

    assert text
    assert not set("{}") & set(text)


@pytest.mark.parametrize("door", DOORS, ids=["mcp", "web", "terminal", "api"])
def test_no_door_has_words_for_what_no_service_refuses(door):
    assert set(door._MESSAGES) == set(Code)


@pytest.mark.parametrize("code", [code for code in Code if code.name.startswith(("JOB_", "PROMPT_", "RUN_"))])
def test_pages_do_not_show_ids(code):
    named_otherwise = {Code.JOB_NAME_AMBIGUOUS}

    assert code in named_otherwise or "job_1_1" not in web.message_of(refusal(code))
