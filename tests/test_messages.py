"""Every refusal of a service has words at every door."""

import pytest

from cronty_site.terminal import messages as terminal
from schedules.api import messages as api
from schedules.mcp import messages as mcp
from schedules.result import Code, Err
from schedules.web import messages as web


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


@pytest.mark.parametrize("door", [mcp, web, terminal, api], ids=["mcp", "web", "terminal", "api"])
def test_door_has_words_for_exactly_what_services_refuse(door):
    texts = {code: door.message_of(refusal(code)) for code in Code}

    assert set(door._MESSAGES) == set(Code)
    assert {code: text for code, text in texts.items() if not text or set("{}") & set(text)} == {}


def test_pages_do_not_show_ids():
    codes = [code for code in Code if code.name.startswith(("JOB_", "PROMPT_", "RUN_"))]

    shown = {code for code in codes if "job_1_1" in web.message_of(refusal(code))}
    # A name of several jobs stands for none of them.
    assert shown <= {Code.JOB_NAME_AMBIGUOUS}
