"""Random calls: made from the schemas, and junk. Long form: FUZZ_CALLS=20000 make fuzz-tools."""

import asyncio
import os

import pytest
from asgiref.sync import async_to_sync
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp_types import CallToolResult

from schedules.models import Job
from schedules.tools import more
from schedules.tools.server import build_server
from tests.clusters import PROJECT
from tests.factories import ExecutionFactory, JobFactory
from tests.tools.agents import mode_of, text_of
from tests.tools.contract import recorded

CALLS = int(os.environ.get("FUZZ_CALLS", "400"))
BATCH = 20
STUCK_SECONDS = 60
LEAKS = ("Traceback", f"{PROJECT}/", "site-packages", "SELECT ", "django.", "sqlite3", "psycopg")

TOOLS = {tool["name"]: tool["inputSchema"] for tool in recorded()["tools"]}
SENSIBLE = st.sampled_from(
    [
        *("once", "interval", "cron", "pending", "failed", "tests.ping", "notify", "webhook", "prompt"),
        *("Europe/Berlin", "UTC", "Mars/Olympus", "0 9 * * *", "@daily", "*/7 * 31 2 *", "in 20 minutes"),
        *(
            "tomorrow at 9am",
            "2030-01-01T00:00:00",
            "2030-01-01",
            "15:00",
            "1h30m",
            "job_1",
            "scd_1",
            "topic",
        ),
        *(
            "",
            " ",
            "\x00",
            "\u202e",
            "null",
            "[]",
            "{}",
            "0",
            "-1",
            "' OR 1=1 --",
            "../../etc/passwd",
            "x" * 5000,
        ),
    ]
)
TEXT = SENSIBLE | st.text(max_size=30)
NUMBERS = st.integers(-3, 60) | st.sampled_from([10**9, 2**31, 2**63, -(2**63) - 1, 10**30, 10**400])
FLOATS = st.floats() | NUMBERS
JSON = st.recursive(
    st.none() | st.booleans() | FLOATS | TEXT,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(TEXT, children, max_size=3),
    max_leaves=8,
)
CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "run_at": TEXT,
        "expression": TEXT,
        "seconds": FLOATS,
        "minutes": FLOATS,
        "hours": FLOATS,
        "days": FLOATS,
    },
)


def values(name: str, schema: dict) -> st.SearchStrategy:
    """Values that fit a schema, or nearly so."""
    if name == "trigger_config":
        return CONFIGS | JSON
    options = schema.get("anyOf", [schema])
    by_type = {
        "string": TEXT,
        "integer": NUMBERS,
        "number": FLOATS,
        "boolean": st.booleans(),
        "null": st.none(),
        "array": st.lists(JSON, max_size=4),
        "object": st.dictionaries(TEXT, JSON, max_size=4),
    }
    return st.one_of(*(by_type.get(option.get("type"), JSON) for option in options))


def arguments(schema: dict) -> st.SearchStrategy:
    fields = {name: values(name, part) for name, part in schema["properties"].items()}
    required = {name: fields[name] for name in schema.get("required", [])}
    optional = {name: strategy for name, strategy in fields.items() if name not in required}
    return st.fixed_dictionaries(required, optional=optional)


FITTING = st.sampled_from(sorted(TOOLS)).flatmap(
    lambda name: st.tuples(st.just(name), arguments(TOOLS[name]))
)
JUNK = st.tuples(st.sampled_from(sorted(TOOLS)) | TEXT, st.dictionaries(TEXT, JSON, max_size=4))
CALL = FITTING | FITTING | FITTING | JUNK


def check(name: str, result: CallToolResult) -> None:
    text = text_of(result)
    assert not any(leak in text for leak in LEAKS), (name, text)
    if result.is_error:
        assert text.startswith(("Invalid arguments for ", "Unknown tool: ")), (name, text)
    else:
        assert result.structured_content is not None


@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("unlimited")
def test_no_call_crashes_leaks_or_gets_stuck(caller, owner, nothing_to_wait_for, caplog):
    job = JobFactory(owner=owner, public_id="job_1")
    JobFactory(owner=owner, public_id="scd_1", task="notify", kwargs={"message": "x", "topic": "topic"})
    ExecutionFactory(job=job, status="waiting")
    made = []

    @settings(
        max_examples=CALLS // BATCH,
        deadline=None,
        database=None,
        derandomize=CALLS < 1000,
        suppress_health_check=list(HealthCheck),
    )
    @given(calls=st.lists(CALL, min_size=BATCH, max_size=BATCH), era=st.sampled_from(["modern", "legacy"]))
    def play(calls, era):
        async def run():
            async with asyncio.timeout(STUCK_SECONDS), Client(build_server(), **mode_of(era)) as client:
                return [await client.call_tool(name, given) for name, given in calls]

        for (name, _), result in zip(calls, async_to_sync(run)(), strict=True):
            check(name, result)
            made.append(name)
        # So that lists stay short and the run steady.
        Job.objects.filter(owner=owner).exclude(public_id__in=["job_1", "scd_1"]).delete()

    play()

    assert len(made) >= CALLS // BATCH * BATCH
    assert "unexpected exception" not in caplog.text


@pytest.fixture
def nothing_to_wait_for(settings, monkeypatch):
    settings.NTFY_URL = "http://127.0.0.1:1"
    monkeypatch.setattr(more, "LONGEST_WAIT", 0.01)
