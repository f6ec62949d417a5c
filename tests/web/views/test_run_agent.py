"""What the page of a run shows of its agent: verdict, tools, refusals and the answer, without HTML of others."""

import pytest
from django.utils import timezone

from schedules.models import AgentRun
from tests.factories import ExecutionFactory


@pytest.fixture
def run(owner):
    return ExecutionFactory(job__owner=owner, job__task="prompt", job__kwargs={"prompt": "Tidy"}, attempt=1)


def add_agent(run, **values):
    defaults = {
        "attempt": 1,
        "owner": run.owner,
        "runner": "notes",
        "kind": "claude",
        "started_at": timezone.now(),
    }
    return AgentRun.objects.create(execution=run, **{**defaults, "verdict": "done", **values})


def test_page_shows_verdict_usage_tools_and_refusals(web, run):
    push = {"name": "Bash", "input": "git push <origin>", "outcome": "denied"}
    add_agent(
        run,
        **{"verdict": "refused", "turns": 3, "tokens_in": 12_000, "tokens_out": 40, "cost": "0.011"},
        **{"tools": [push], "denials": [push], "tool_calls": 250, "program_version": "2.1.197"},
    )

    page = web.get(f"/runs/{run.pk}/").content.decode()

    assert "Refused" in page
    assert "12,000 read, 40 written" in page
    assert "$0.0110" in page
    assert "git push &lt;origin&gt;" in page
    assert "Only the first 1 are kept." in page


def test_answer_is_formatted_and_none_of_its_html_survives(web, run):
    add_agent(
        run,
        answer="# Done\n\n- **two** files\n- see https://example.com/a?b=1&c=2.\n\n`<b>x</b>`\n```\n<script>alert(1)</script>\n```\n"
        '<img src=x onerror=alert(1)> [x](javascript:alert(1)) https://a.example/"onmouseover="x',
    )

    page = web.get(f"/runs/{run.pk}/").content.decode()

    assert "<h4>Done</h4>" in page
    assert "<li><b>two</b> files</li>" in page
    assert '<a href="https://example.com/a?b=1&amp;c=2" rel="noopener nofollow">' in page
    assert "<code>&lt;b&gt;x&lt;/b&gt;</code>" in page
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert 'href="javascript' not in page
    assert "onmouseover=&quot;" in page or 'href="https://a.example/"' in page
