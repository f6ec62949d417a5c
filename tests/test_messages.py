"""Every refusal of a service has a text, which pages replace where it names ids."""

from schedules.mcp.answers.refusals import message_of as message_of_mcp
from schedules.result import Code, Err
from schedules.web.messages import message_of as message_of_web


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


def test_texts_can_be_filled_in():
    texts = [say(refusal(code)) for code in Code for say in (message_of_mcp, message_of_web)]
    texts += [refusal(code).text for code in Code]

    assert not [text for text in texts if not text or set("{}") & set(text)]


def test_pages_do_not_show_ids():
    codes = [code for code in Code if code.name.startswith(("JOB_", "PROMPT_", "RUN_"))]

    shown = {code for code in codes if "job_1_1" in message_of_web(refusal(code))}
    # A name of several jobs stands for none of them.
    assert shown <= {Code.JOB_NAME_AMBIGUOUS}
