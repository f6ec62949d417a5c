"""One table of values, read alike at every door that changes a job."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import User

from cronty_site.terminal.arguments import OPTIONS
from cronty_site.terminal.group import main
from schedules.admin.jobs import JobAdminForm
from schedules.mcp.auth import local_caller, set_local_caller
from schedules.mcp.offers import OFFER_BY_NAME
from schedules.mcp.registration import answer as answer_of
from schedules.models import Job
from schedules.result import Err, Ok
from schedules.services import Actor
from schedules.services.documents import settings_of
from schedules.services.files.applying import export_jobs
from schedules.services.files.jobs import read_jobs
from schedules.services.jobs.edits import edit
from schedules.services.jobs.validation import default_of
from schedules.spec.job import JobSpec
from schedules.web.forms.jobs import JobForm
from tests.api.conftest import program_of
from tests.factories import JobFactory
from tests.spec.values import MISTYPED, NOW, REFUSED, VALUES

pytestmark = pytest.mark.django_db

DOORS = ("api", "terminal", "file", "form", "admin", "mcp")
# What few jobs need is no argument of the tools, because each costs an agent context.
NOT_FOR_AGENTS = ("at_most_once", "pause_after_failures", "urgent")
Door = Callable[[Job, str, Any], str]
"""Set a field of a job to a value; return what the door answers."""


@pytest.fixture
def doors(owner: User, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[dict[str, Door]]:
    program = program_of(owner)

    def api(job: Job, field: str, value: Any) -> str:
        answer = program.call("PATCH", f"/jobs/{job.public_id}", {field: value}, **{"If-Match": "*"})
        return answer.content.decode()

    def terminal(job: Job, field: str, value: Any) -> str:
        option = OPTIONS[field]
        if isinstance(value, bool):
            given = [option if value else f"--no-{option[2:]}"]
        else:
            given = [f"{option}={each}" for each in (value if isinstance(value, list) else [value])]
        capsys.readouterr()
        main(["edit", job.public_id, *given])
        return capsys.readouterr().err

    def file(job: Job, field: str, value: Any) -> str:
        call = {"task": job.task, "arguments": job.kwargs, "schedule": job.cron, "timezone": job.timezone}
        call |= {"calendars": job.calendars}
        path = tmp_path / "job.yaml"
        path.write_text(json.dumps({"jobs": {job.name: call | {field: value}}}))
        capsys.readouterr()
        main(["edit", job.public_id, "--file", str(path)])
        return capsys.readouterr().err

    def form(job: Job, field: str, value: Any) -> str:
        calendars = {"DE-BY": "Bavaria"}
        blank = JobForm(None, zone="UTC", job=job, calendars=lambda: calendars)
        typed = [each for each in value if each] if field == "calendars" else text_of(value)
        data = {each.name: each.value() for each in blank if each.value() is not None} | {field: typed}
        filled = JobForm(data, zone="UTC", job=job, calendars=lambda: calendars)
        if filled.is_valid():
            assert isinstance(edit(Actor(owner), job.public_id, **filled.changes()), Ok)
        return unescape(filled.errors.as_text())

    def admin(job: Job, field: str, value: Any) -> str:
        blank = JobAdminForm(instance=job)
        typed = "\n".join(value) if isinstance(value, list) else text_of(value)
        data = {each.name: each.value() for each in blank if each.value() not in (None, False)} | {
            field: typed
        }
        filled = JobAdminForm(data, instance=job)
        if not filled.is_valid():
            return unescape(filled.errors.as_text())
        columns = filled.columns(owner)
        if isinstance(columns, Err):
            return columns.reasons
        assert isinstance(edit(Actor(owner), job.public_id, **columns.value), Ok)
        return ""

    def mcp(job: Job, field: str, value: Any) -> str:
        given: Any = {field: value}
        if field == "spread":
            given = {"trigger_config": {"spread": str(value)}}
        elif field == "on_closed":
            given = {"calendars": [*job.calendars, value]}
        answer = answer_of(OFFER_BY_NAME["update_job"], {"job_id": job.public_id, **given})
        return " ".join(map(str, answer.values()))

    with time_machine.travel(NOW, tick=False):
        set_local_caller(local_caller(owner, name="laptop"))
        yield {door.__name__: door for door in (api, terminal, file, form, admin, mcp)}
        set_local_caller(None)


def text_of(value: Any) -> Any:
    """Return a value as a browser sends it."""
    if isinstance(value, bool):
        return "on" if value else ""
    return ", ".join(value) if isinstance(value, list) else str(value)


def job_of(owner: User, field: str) -> Job:
    """Return a job whose field has another value than those of the table."""
    other: dict[str, Any] = {
        "max_runs": {"max_runs": 7},
        "ends_at": {"ends_at": NOW.replace(year=2028)},
        "alerts": {"alerts": "never"},
        "tags": {"tags": ["old"]},
        "spread": {"spread": timedelta(minutes=1)},
        "fixed_backoff": {"fixed_backoff": True},
        "on_closed": {"calendars": ["DE-BY"]},
    }
    return JobFactory(
        owner=owner,
        name="Job",
        cron="0 9 * * *",
        task="prompt",
        kwargs={"prompt": "x"},
        **other.get(field, {}),
    )


@pytest.mark.parametrize("name", DOORS)
def test_values_mean_the_same_at_every_door(owner: User, doors: dict[str, Door], name: str):
    stored = []
    values = [row for row in VALUES if name != "mcp" or row[0] not in NOT_FOR_AGENTS]
    for field, value, _ in values:
        job = job_of(owner, field)
        doors[name](job, field, value)
        job.refresh_from_db()
        stored.append((field, value, getattr(job, field)))

    assert stored == values


def test_export_and_answers_say_every_value(owner: User):
    with time_machine.travel(NOW, tick=False):
        for field, _, column in VALUES:
            job = job_of(owner, field)
            setattr(job, field, column)
            [described], problems = read_jobs([("", export_jobs(Actor(owner), [job]))], "Asia/Tokyo", NOW)
            assert problems == []
            assert described.columns.get(field, default_of(field)) == column
            shown = settings_of(job) | {"label": job.label, "tags": job.tags, "timezone": job.timezone}
            if field != "ends_at":  # Answers name seconds.
                read = JobSpec.read({field: shown[field]}, now=NOW, zone="UTC")
                assert isinstance(read, Ok)
                assert read.value.get(field) == column


@pytest.mark.parametrize("name", DOORS)
def test_wrong_values_are_refused_for_the_same_reasons(owner: User, doors: dict[str, Door], name: str):
    job = job_of(owner, "")
    for field, value, reason in REFUSED:
        assert reason in doors[name](job, field, value).lower()

    job.refresh_from_db()
    assert job.revision == 1


@pytest.mark.parametrize("name", ["api", "file"])
def test_values_of_a_wrong_type_are_refused(owner: User, doors: dict[str, Door], name: str):
    job = job_of(owner, "")
    for field, value, reason in MISTYPED:
        assert reason in doors[name](job, field, value).lower()
