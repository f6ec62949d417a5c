"""Random calls: valid except for one argument, generated from the schemas, and junk. Long run: `make fuzz`."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import User
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp_types import CallToolResult

from schedules.mcp.offers import OFFERS
from schedules.mcp.server import build_server
from schedules.mcp.tools import running
from schedules.models import Event, Execution, Job, Profile
from tests.clusters import PROJECT
from tests.factories import ExecutionFactory, JobFactory
from tests.mcp.agents import mode_of, text_of
from tests.mcp.contract import recorded
from tests.mcp.examples import examples
from tests.sizes import sizes

STUCK_SECONDS = 900
LEAKS = ("Traceback", f"{PROJECT}/", "site-packages", "SELECT ", "django.", "sqlite3", "psycopg")

TOOLS = {tool["name"]: tool["inputSchema"] for tool in recorded()["tools"]}
READING = {offer.name for offer in OFFERS if offer.scope == "read"}
HOMES = ["Europe/Berlin", "America/New_York"]
ZONES = [*HOMES, "UTC", "Mars/Olympus"]
DAYS = ["2030-01-01", "9999-12-31", "0001-01-01"]
MOMENTS = [*DAYS, "2030-01-01T00:00:00", "9999-12-31T23:59:59", "tomorrow at 9am", "in 20 minutes", "15:00"]
SENSIBLE = st.sampled_from(
    [
        *("once", "interval", "cron", "pending", "failed", "tests.ping", "notify", "webhook", "prompt"),
        *("0 9 * * *", "@daily", "*/7 * 31 2 *", "1h30m", "job_1", "scd_1", "topic"),
        *ZONES,
        *MOMENTS,
        *("", " ", "\x00", "\u202e", "null", "[]", "{}", "0", "-1"),
        *("' OR 1=1 --", "../../etc/passwd", "x" * 5000),
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
        "run_at": st.sampled_from(MOMENTS) | TEXT,
        "expression": TEXT,
        "seconds": FLOATS,
        "minutes": FLOATS,
        "hours": FLOATS,
        "days": FLOATS,
    },
)
NAMED = {
    "trigger_config": CONFIGS | JSON,
    "timezone": st.sampled_from([*ZONES, None]) | TEXT,
    **dict.fromkeys(
        ["at", "from", "to", "until", "date", "datetime"], st.sampled_from([*MOMENTS, None]) | TEXT
    ),
}


def values(name: str, schema: dict) -> st.SearchStrategy:
    """Generate values that match a schema, or almost match it."""
    if name in NAMED:
        return NAMED[name]
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


NUMBER = 910_000_001
# Tools that end a job get their own job: the other tools need one that is active.
GOOD = {
    **examples(Job(public_id="job_1"), Job(pk=NUMBER), Execution(pk=NUMBER)),
    "cancel_job": {"job_id": "job_2"},
    "restore_job": {"job_id": "job_3"},
    "delete_schedule": {"schedule_id": "scd_1"},
    "schedule_cancel": {"id": NUMBER + 1},
}


def nearly_valid(name: str) -> st.SearchStrategy:
    """Generate the arguments of a valid call, at most one of them changed."""
    fields = TOOLS[name]["properties"]
    odd = [st.fixed_dictionaries({field: values(field, part)}) for field, part in fields.items()]
    return st.one_of(st.just({}), *odd).map(lambda change: GOOD[name] | change)


# Cached, because hypothesis validates every new strategy, which takes longer than the call.
@cache
def calls_of(name: str) -> st.SearchStrategy:
    junk = st.dictionaries(TEXT, JSON, max_size=4)
    return st.tuples(st.just(name), nearly_valid(name) | nearly_valid(name) | arguments(TOOLS[name]) | junk)


ONE_OF_EACH = st.permutations(sorted(TOOLS)).flatmap(lambda names: st.tuples(*map(calls_of, names)))
UNKNOWN = st.tuples(TEXT, st.dictionaries(TEXT, JSON, max_size=4))
MORE = st.lists(st.sampled_from(sorted(TOOLS)).flatmap(calls_of) | UNKNOWN, max_size=10)


@dataclass
class Call:
    """One call, its answer, and the stored rows and the number of notifications sent at once, before and after it."""

    name: str
    arguments: dict[str, Any]
    result: CallToolResult
    before: Any
    after: Any

    @property
    def is_refused(self) -> bool:
        said = self.result.structured_content or {}
        return (
            self.result.is_error
            or said.get("error") is not None
            or False in (said.get("success"), said.get("cancelled"), said.get("completed"))
            or str(said.get("result")).startswith(("Error: ", "Task #"))
        )

    def check(self) -> None:
        text, own_words = text_of(self.result), f"{self.name} {self.arguments}"
        assert not any(leak in text and leak not in own_words for leak in LEAKS), self
        if self.result.is_error and self.result.structured_content is None:
            assert text.startswith(("Invalid arguments for ", "Unknown tool: ")), self
        else:
            assert self.result.structured_content is not None
        if self.name in READING or self.is_refused:
            (rows, pushes), (rows_before, pushes_before) = self.after, self.before
            assert rows == rows_before, self
            # A notification that could not be sent is recorded; one that was not tried is not.
            is_tried = self.name == "send_push_notification" and not self.result.is_error
            assert pushes - pushes_before in ((0, 1) if is_tried else (0,)), self


def reset_rows(owner: User, home: str) -> None:
    """Recreate the rows, so that lists stay short and batches are independent."""
    Profile.objects.update(timezone=home)
    Execution.objects.all().delete()
    Job.objects.all().delete()
    for public_id in ("job_1", "job_2"):
        JobFactory(owner=owner, public_id=public_id)
    JobFactory(owner=owner, public_id="job_3", status="cancelled", next_run_at=None)
    JobFactory(owner=owner, public_id="scd_1", task="notify", kwargs={"message": "x", "topic": "topic"})
    prompt, _ = (
        JobFactory(owner=owner, pk=key, once=True, task="prompt", kwargs={"prompt": "x"})
        for key in (NUMBER, NUMBER + 1)
    )
    ExecutionFactory(pk=NUMBER, job=prompt, status="waiting")


@sync_to_async
def stored() -> Any:
    jobs = Job.objects.order_by("pk").values_list("pk", "revision", "status", "next_run_at", "deleted_at")
    runs = Execution.objects.exclude(job=None).order_by("pk").values_list("pk", "status", "lease_until")
    pushes = Execution.objects.filter(job=None).count()
    return (list(jobs), list(runs), Event.objects.count()), pushes


async def make(calls: list[tuple[str, dict[str, Any]]], era: str) -> list[Call]:
    made = []
    async with asyncio.timeout(STUCK_SECONDS), Client(build_server(), **mode_of(era)) as client:
        before = await stored()
        for name, given in calls:
            result = await client.call_tool(name, given)
            after = await stored()
            made.append(Call(name, given, result, before, after))
            before = after
    return made


@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("unlimited", "nothing_to_wait_for")
@pytest.mark.parametrize("number_of_calls", sizes(120, 480, "FUZZ_CALLS"))
def test_no_call_crashes_leaks_or_gets_stuck(caller, owner, caplog, number_of_calls: int):
    refused, done, is_long = Counter(), Counter(), number_of_calls >= 1000

    @settings(
        max_examples=number_of_calls // len(TOOLS),
        deadline=None,
        database=None,
        derandomize=not is_long,
        # Minimising a failure would take minutes; the same calls fail again.
        phases=tuple(Phase) if is_long else [Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        each=ONE_OF_EACH, more=MORE, home=st.sampled_from(HOMES), era=st.sampled_from(["modern", "legacy"])
    )
    def play(each, more, home, era):
        reset_rows(owner, home)
        for call in async_to_sync(make)([*each, *more], era):
            call.check()
            (refused if call.is_refused else done)[call.name] += 1

    play()

    # Nothing can be sent: there is no ntfy server.
    assert set(TOOLS) - set(done) == {"send_push_notification"}
    assert len(refused.keys() & TOOLS.keys()) > len(TOOLS) / 2
    assert "unexpected exception" not in caplog.text


@pytest.fixture
def nothing_to_wait_for(settings, monkeypatch):
    settings.NTFY_URL = "http://127.0.0.1:1"
    monkeypatch.setattr(running, "MAX_WAIT_SECONDS", 0.01)
