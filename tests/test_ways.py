"""How many files one firing, one tool call and one form pass through."""

import math
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test import Client

from cronty_site.asgi import build_application
from schedules import clock
from schedules.mcp import answers
from schedules.models import Execution, Job
from schedules.services import issue_token
from schedules.tasks.operator_files import watching
from schedules.worker import packages
from schedules.worker.claim_loop import ClaimLoop
from schedules.worker.context import Clock, ClusterContext
from schedules.worker.locks import Permits
from schedules.worker.q2 import Package
from tests.factories import ClusterFactory, JobFactory
from tests.mcp.over_http import browser, modern_call, running
from tests.waiting import wait_for
from tests.ways import WAYS, Way

FIRING, CALL, FORM = WAYS
# What reads, checks or builds the same value again wherever it is called again.
ONCE = ("Cron.__post_init__", "parse_trigger", "fill_in", "type_problems", "Task.check", "Job.clean")

pytestmark = pytest.mark.skipif(
    connection.vendor != "sqlite", reason="the numbers are those of SQLite, the default"
)


# The second of each kind is traced, with moments of its own: what is done once per process, or remembered from another
# test, must not decide about a way.


class StillClock(Clock):
    """A clock whose seconds do not pass: nothing that is done every few seconds falls into a way."""

    def is_host_set(self) -> bool:
        return False

    def monotonic(self) -> float:
        return 1000.0

    def sleep(self, seconds: float) -> None:
        """Return at once."""


@pytest.fixture(autouse=True)
def steady_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for the file of commands once: whether a second has passed must not decide about a way."""
    monkeypatch.setattr(watching, "POLL_SECONDS", math.inf)


def check(title: str, way: Way) -> None:
    assert len(way.files) <= WAYS[title], way.files


def test_firing_passes_through_few_files(transactional_db):
    cluster = ClusterFactory()
    context = ClusterContext(cluster.pk, Permits(1), StillClock())
    claim_loop = ClaimLoop(context)
    way = Way()

    with way.watching(), packages.executing(context) as loop:
        fire(claim_loop, make_due("17 8 * * *"))
        second = make_due("43 9 * * *")
        # It is over when its outcome is written; the end of the worker does not belong to it.
        with way.recording():
            fire(claim_loop, second)
    loop.leases.executor.shutdown(wait=True)
    context.close()

    check(FIRING, way)


def make_due(cron: str) -> Job:
    job: Job = JobFactory(task="tests.aping", cron=cron, next_run_at=clock.now())
    return job


def fire(claim_loop: ClaimLoop, job: Job) -> None:
    """Run a due job until its outcome is written, as a worker of django-q2 does."""
    runs: list[Package] = []
    while not runs:
        runs = [package for package in claim_loop.next_packages() if package["func"] is not packages.probe]
    for package in runs:
        package["func"](*package["args"])
    wait_for(lambda: Execution.objects.filter(job=job, status="succeeded").exists())


def test_tool_call_over_http_passes_through_few_files(owner, caplog):
    # The line of the client would pass through the logs of this process.
    caplog.set_level("WARNING", "httpx2")
    ClusterFactory()
    token = issue_token(owner, name="laptop").value.text
    way = Way()

    async def call_twice() -> list[Any]:
        async with running(build_application()) as app, browser(app, token) as http:
            first = await http.post(**schedule_job("Tea", "13 8 * * *"))
            answers._is_worker_running.cache_clear()
            way.record()
            second = await http.post(**schedule_job("Coffee", "41 9 * * *"))
            way.stop()
            return [first, second]

    with way.watching():
        responses = async_to_sync(call_twice)()

    assert [response.status_code for response in responses] == [200, 200]
    assert Job.objects.count() == 2, responses[-1].text
    check(CALL, way)
    assert {name: way.calls[name] for name in ONCE} == {
        # The tool says what is wrong with an expression; the job has the same trigger.
        "Cron.__post_init__": 1,
        "parse_trigger": 0,
        "fill_in": 0,
        "type_problems": 1,
        "Task.check": 1,
        "Job.clean": 1,
    }


def schedule_job(name: str, cron: str) -> dict[str, Any]:
    return modern_call(
        "schedule_job",
        {
            "name": name,
            "task": "notify",
            "kwargs": {"message": f"{name} is ready.", "topic": "kitchen"},
            "trigger_type": "cron",
            "trigger_config": {"expression": cron},
            "timezone": "Europe/Berlin",
        },
    )


def test_form_passes_through_few_files(web: Client):
    way = Way()

    with way.watching():
        first = web.post("/jobs/new/", form("Tea", "every day at 8:19"))
        way.record()
        second = web.post("/jobs/new/", form("Coffee", "every day at 9:47"))

    assert [first.status_code, second.status_code] == [302, 302]
    assert Job.objects.count() == 2
    check(FORM, way)
    assert {name: way.calls[name] for name in ONCE} == {
        # A phrase becomes a trigger, and the stored columns are read back once.
        "Cron.__post_init__": 2,
        "parse_trigger": 1,
        "fill_in": 0,
        "type_problems": 1,
        # The form shows every error at its field at once; the service trusts nobody.
        "Task.check": 2,
        "Job.clean": 1,
    }


def form(name: str, phrase: str) -> dict[str, str]:
    return {
        "name": name,
        "task": "notify",
        "notify-message": f"{name} is ready.",
        "notify-topic": "kitchen",
        "when": "phrase",
        "phrase": phrase,
        "timezone": "Europe/Berlin",
    }
