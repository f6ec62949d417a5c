"""Whole phrases: every interface that takes a schedule reads its end and its exceptions alike."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import User
from django.test import Client

from cronty_site.terminal.group import main
from schedules.mcp.auth import local_caller, set_local_caller
from schedules.mcp.offers import OFFER_BY_NAME
from schedules.mcp.registration import answer as answer_of
from schedules.mcp.tools.jobs import schedule_job
from schedules.mcp.tools.manage import update_job
from schedules.mcp.tools.reading import preview_schedule
from schedules.models import Calendar, Job, Profile
from schedules.services import Actor
from schedules.services.jobs.forecasts import next_runs_of
from schedules.services.people.calendars import CalendarSpec, set_calendar
from tests.api.conftest import Program, program_of
from tests.conftest import session_of
from tests.factories import JobFactory

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 16, 9, 5, tzinfo=UTC)
ZONE = "Europe/Berlin"
# One that makes a calendar, and one with days and an end; `tests/when/test_clauses.py` has the table of phrases.
PHRASES = [
    "every weekday at 9 except public holidays in Bavaria",
    "every day at 9 except 25 december 2026 and 1 january 2027 until 31 january 2027",
]
# The words of the text are in the grammar, but no file may depend on when it is applied.
UNTIL_JUNE = "every day at 7 until 1 june"


class Doors:
    """All ways to give a job a schedule in words, and to preview one; each returns the job or the next runs."""

    def __init__(self, owner: User, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.owner, self.folder, self.capsys = owner, folder, capsys
        self.program: Program = program_of(owner)
        self.page: Client = session_of(owner)

    def creations(self) -> list[Callable[[str], Job]]:
        return [self.form, self.line, self.add, self.post, self.apply, self.tool]

    def changes(self) -> list[Callable[[str], Job]]:
        return [self.edit, self.edit_form, self.patch, self.reapply, self.edit_document, self.update]

    def previews(self) -> list[Callable[[str], list[datetime]]]:
        return [self.preview, self.post_preview, self.preview_tool]

    def form(self, phrase: str) -> Job:
        values = {"name": "form", "task": "prompt", "prompt-prompt": "x", "when": "phrase", "phrase": phrase}
        self.page.post("/jobs/new/", values | {"timezone": ZONE, "tags": ""})
        return Job.objects.get(name="form")

    def line(self, phrase: str) -> Job:
        self.page.post("/jobs/quick/", {"line": f"water the plants {phrase}"})
        return Job.objects.get(name="Water the plants")

    def add(self, phrase: str) -> Job:
        self.terminal("add", phrase, "prompt", "x", "--name", "add")
        return Job.objects.get(name="add")

    def post(self, phrase: str) -> Job:
        job = {"name": "post", "schedule": phrase, "task": "prompt", "kwargs": {"prompt": "x"}}
        self.program.ok("POST", "/jobs", job)
        return Job.objects.get(name="post")

    def apply(self, phrase: str) -> Job:
        self.terminal("apply", self.written("apply", phrase), "--yes")
        # The same file again changes nothing.
        self.terminal("apply", self.written("apply", phrase), "--check")
        return Job.objects.get(name="apply")

    def tool(self, phrase: str) -> Job:
        made: Any = schedule_job(
            "tool", "prompt", "cron", {"expression": phrase}, kwargs={"prompt": "x"}, timezone=ZONE
        )
        return Job.objects.get(public_id=made["job_id"])

    def edit(self, phrase: str) -> Job:
        self.terminal("edit", self.old("edit").public_id, "--schedule", phrase)
        return Job.objects.get(name="edit")

    def edit_form(self, phrase: str) -> Job:
        address = f"/jobs/{self.old('formed').public_id}/edit/"
        form = self.page.get(address).context["form"]
        values = {field.name: field.value() for field in form if field.value() not in (None, False)}
        self.page.post(address, values | {"when": "phrase", "phrase": phrase})
        return Job.objects.get(name="formed")

    def patch(self, phrase: str) -> Job:
        path = f"/jobs/{self.old('patch').public_id}"
        self.program.ok("PATCH", path, {"schedule": phrase}, **{"If-Match": "*"})
        return Job.objects.get(name="patch")

    def reapply(self, phrase: str) -> Job:
        self.terminal("apply", self.written("reapply", "every day at 23:00"), "--yes")
        self.terminal("apply", self.written("reapply", phrase), "--yes")
        self.terminal("apply", self.written("reapply", phrase), "--check")
        return Job.objects.get(name="reapply")

    def edit_document(self, phrase: str) -> Job:
        job = self.old("edited")
        self.terminal("edit", job.public_id, "--file", self.written("edited", phrase))
        return Job.objects.get(name="edited")

    def update(self, phrase: str) -> Job:
        answer: Any = update_job(self.old("update").public_id, trigger_config={"expression": phrase})
        assert "error" not in answer
        return Job.objects.get(name="update")

    def preview(self, phrase: str) -> list[datetime]:
        return moments(json.loads(self.terminal("preview", phrase, "--json"))["next_runs"])

    def post_preview(self, phrase: str) -> list[datetime]:
        return moments(self.program.ok("POST", "/preview", {"schedule": phrase})["next_runs"])

    def preview_tool(self, phrase: str) -> list[datetime]:
        answer: Any = preview_schedule("cron", {"expression": phrase}, timezone=ZONE)
        return moments(answer["next_runs"])

    def old(self, name: str) -> Job:
        kwargs = {"prompt": "x"}
        return JobFactory(owner=self.owner, name=name, task="prompt", kwargs=kwargs, timezone=ZONE)

    def written(self, name: str, phrase: str) -> str:
        path = self.folder / f"{name}.yaml"
        job = {"task": "prompt", "arguments": {"prompt": "x"}, "schedule": phrase, "timezone": ZONE}
        path.write_text(json.dumps({"jobs": {name: job}}))
        return str(path)

    def terminal(self, *arguments: str) -> str:
        self.capsys.readouterr()
        code = main(list(arguments))
        printed = self.capsys.readouterr()
        assert code == 0, (arguments, printed.err)
        return printed.out


def moments(texts: list[str]) -> list[datetime]:
    return [datetime.fromisoformat(text) for text in texts]


def schedule_in(job: Job) -> dict[str, Any]:
    return {name: getattr(job, name) for name in (*Job.TRIGGER_FIELDS, "skips", "closed_by")}


@pytest.fixture
def doors(owner: User, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Doors]:
    with time_machine.travel(NOW, tick=False):
        Profile.objects.update_or_create(user=owner, defaults={"topic": "my-phone", "timezone": ZONE})
        set_calendar(Actor(owner), CalendarSpec("office days", "hours", lines=["sat,sun"]))
        set_local_caller(local_caller(owner, name="laptop"))
        yield Doors(owner, tmp_path, capsys)
        set_local_caller(None)


@pytest.mark.parametrize("phrase", PHRASES)
def test_phrase_means_the_same_at_all_doors(doors: Doors, phrase: str):
    previewed = {door.__name__: door(phrase) for door in doors.previews()}
    assert Calendar.objects.count() == 1
    jobs = {door.__name__: door(phrase) for door in (*doors.creations(), *doors.changes())}

    expected = jobs["form"]
    assert expected.ends_at or expected.skips or expected.closed_by
    assert {name: schedule_in(job) for name, job in jobs.items()} == dict.fromkeys(
        jobs, schedule_in(expected)
    )
    runs = next_runs_of(expected, NOW)
    assert {name: next_runs_of(job, NOW) for name, job in jobs.items()} == dict.fromkeys(jobs, runs)
    assert previewed == dict.fromkeys(previewed, runs)


def test_random_delay_in_a_phrase_is_kept_at_all_doors(doors: Doors):
    phrase = "every day at 9 within 20 minutes"
    jobs = {door.__name__: door(phrase) for door in (*doors.creations(), *doors.changes())}

    assert {name: job.spread for name, job in jobs.items()} == dict.fromkeys(jobs, timedelta(minutes=20))


def test_what_a_schedule_says_is_refused_beside_it(doors: Doors):
    said = {"schedule": "every day at 9 except calendar office days until 2027-06-01"}
    job = said | {"name": "x", "task": "prompt", "kwargs": {"prompt": "x"}}
    for given, option in (
        ({"ends_at": "2028-01-01"}, "--until=2028-01-01"),
        ({"calendars": ["DE"]}, "--calendar=DE"),
    ):
        [(name, value)] = given.items()
        refused = json.loads(doors.program.call("POST", "/jobs", job | given).content)
        assert [each["field"] for each in refused["errors"]] == [name]
        assert main(["add", said["schedule"], "prompt", "x", option]) == 2
        assert option.partition("=")[0] in doors.capsys.readouterr().err
        config = {"expression": said["schedule"]}
        asked = {"name": "x", "task": "prompt", "kwargs": {"prompt": "x"}, "trigger_type": "cron"}
        answer = answer_of(OFFER_BY_NAME["schedule_job"], asked | {"trigger_config": config, name: value})
        assert answer["error"].startswith(f"Invalid {name}: the schedule says this already")
        document = {"task": "prompt", "arguments": {"prompt": "x"}, **said, **given}
        path = doors.folder / "twice.yaml"
        path.write_text(json.dumps({"jobs": {"x": document}}))
        assert main(["apply", str(path), "--yes"]) != 0
        assert "The schedule says this already" in doors.capsys.readouterr().err

    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("phrase", "reason"),
    [
        ("every day at 9 except calendar moon", "no calendar is called 'moon'"),
        ("every day at 9 except 2020-01-01", "today or a later day"),
        ("every day at 9 until the cows come home", "read that date and time"),
    ],
)
def test_mistake_in_a_clause_is_named_and_changes_nothing(doors: Doors, phrase: str, reason: str):
    asked = {"name": "x", "task": "prompt", "kwargs": {"prompt": "x"}, "trigger_type": "cron"}
    answer = answer_of(OFFER_BY_NAME["schedule_job"], asked | {"trigger_config": {"expression": phrase}})
    assert reason in str(answer).replace('"', "'").lower()
    assert main(["add", phrase, "prompt", "x"]) != 0
    assert reason in doors.capsys.readouterr().err.lower()
    job = {"name": "x", "schedule": phrase, "task": "prompt", "kwargs": {"prompt": "x"}}
    assert reason in doors.program.call("POST", "/jobs", job).content.decode().lower()
    old = doors.old("kept")
    assert main(["edit", old.public_id, "--schedule", phrase]) != 0

    assert Job.objects.get().revision == old.revision


def test_file_means_the_same_whenever_it_is_applied(doors: Doors):
    assert doors.add(UNTIL_JUNE).ends_at
    assert main(["apply", doors.written("file", UNTIL_JUNE), "--yes"]) != 0
    assert 'like "until 2026-12-24"' in doors.capsys.readouterr().err
    doors.apply("every monday at 8 except 2026-12-21")

    with time_machine.travel("2027-03-01T09:00:00Z", tick=False):
        # The day has passed, and the job still matches its file.
        doors.terminal("apply", doors.written("apply", "every monday at 8 except 2026-12-21"), "--check")


def test_answers_say_the_whole_phrase(doors: Doors):
    phrase = "every day at 7 except 2026-12-24 until 2027-06-01"
    added = doors.terminal("add", phrase, "prompt", "x")
    edited = doors.terminal("edit", doors.old("old").public_id, "--schedule", phrase)
    shown = doors.program.ok("POST", "/preview", {"schedule": phrase})["description"]

    assert shown == "Every day at 07:00, until Tue 1 Jun 2027 23:59, not on 2026-12-24"
    assert shown in added
    assert shown in edited
    answer: Any = update_job(Job.objects.get(name="old").public_id, name="new")
    assert answer["description"].endswith("not on 2026-12-24")


def test_preview_shows_what_calendars_and_the_random_delay_leave(doors: Doors):
    asked = {"schedule": "every day at 9", "calendars": ["office days"], "on_closed": "next", "spread": "20m"}
    shown = doors.program.ok("POST", "/preview", asked | {"ends_at": "2026-11-24"})
    options = ("--calendar=office days", "--on-closed=next", "--spread=20m", "--until=2026-11-24")
    typed = json.loads(doors.terminal("preview", asked["schedule"], *options, "--json"))

    assert typed["next_runs"] == shown["next_runs"]
    assert [run[:10] for run in shown["next_runs"]] == [f"2026-11-{day}" for day in (17, 18, 19, 20, 23)]
    assert "closed by office days" in shown["description"]
    refused = doors.program.call("POST", "/preview", asked | {"calendars": ["moon"]})
    assert refused.status_code == 422
