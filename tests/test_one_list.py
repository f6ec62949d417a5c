"""One list of jobs: every question has its answer, and pages, tools and terminal give the same one."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from cronty_site.terminal.group import main
from schedules import clock
from schedules.mcp.auth import local_caller, set_local_caller
from schedules.mcp.tools.jobs import list_jobs
from schedules.mcp.tools.many import bulk_jobs
from schedules.models import Job
from schedules.models.standings import ATTENTION
from tests.conftest import session_of
from tests.factories import JobFactory

Question = dict[str, str]
Door = Callable[[Question], set[str] | None]

ADDRESS = "https://example.org/Shown-Path"
# The jobs by their ids, which no word of a question occurs in.
JOBS: dict[str, dict[str, Any]] = {
    "backup": {
        "name": "Nightly backup",
        "task": "webhook",
        "cron": "17 3 * * mon-fri",
        "tags": ["Home", "nas"],
        "label": "Server room",
        "made_by": "laptop",
    },
    "check": {
        "name": "Backup check",
        "task": "notify",
        "kwargs": {
            "message": "Look at the platter",
            "topic": "attic-alerts",
            "tags": ["floppy_disk", "Warn"],
        },
    },
    "tea": {"name": "Tea", "task": "notify", "args": ["Kettle is on", "stove-topic"]},
    "standup": {"name": "Standup", "task": "prompt", "kwargs": {"prompt": "Summarize yesterday's commits"}},
    "retro": {"name": "Retro", "task": "prompt", "args": ["Collect the mood of the team"]},
    "plants": {"name": "Blumen gießen", "tags": ["häuslich", "BÜRO"]},
    "cyrillic": {"name": "Отчёт", "label": "Ежедневный"},
    "chinese": {
        "name": "日报",
        "task": "notify",
        "kwargs": {"message": "把报告发给团队", "topic": "t", "tags": ["工作"]},
    },
    "percent": {"name": "50% off", "label": 'say "cheese"'},
    "underscore": {"name": "under_score"},
    "dashes": {"name": "under-score"},
    "backslash": {"name": "back\\slash", "tags": ['quo"ted', "c:\\temp"]},
    "invoices": {"name": "Invoices", "last_error": "Disk full on /var", "recent": "SF", "failure_streak": 1},
    "digest": {"name": "Digest", "last_error": "TimeoutError: 30 s", "recent": "FF", "failure_streak": 2},
    "holiday": {"name": "Holiday", "tags": ["home"], "status": "paused", "next_run_at": None},
    "old": {"name": "Old report", "status": "completed", "next_run_at": None, "recent": "S"},
    "stopped": {"name": "No more", "status": "cancelled", "next_run_at": None},
    "broken": {"name": "Broken", "status": "failed", "next_run_at": None, "recent": "F"},
    "injection": {"name": "' OR 1=1 --"},
    "accents": {"name": "Émile & Söhne <b>"},
    "weekly": {"name": "Weekly home report", "tags": ["home-office"]},
    "address": {"name": "With arguments", "task": "webhook", "kwargs": {"url": ADDRESS, "timeout": 4711}},
    "secret": {
        "name": "With values",
        "task": "webhook",
        "args": [ADDRESS],
        "kwargs": {"headers": {"Authorization": "Bearer hidden-word"}},
    },
    "rocket": {"name": "🚀 Launch"},
}

QUESTIONS: list[tuple[Question, str]] = [
    ({}, " ".join(JOBS)),
    ({"text": "nightly"}, "backup"),
    ({"text": "BACKUP"}, "backup check"),
    ({"text": "backup nightly"}, "backup"),
    ({"text": "  check   backup  "}, "check"),
    ({"text": "mon-fri 17"}, "backup"),
    ({"text": "NAS"}, "backup"),
    ({"text": "home"}, "backup holiday weekly"),
    ({"text": "platter"}, "check"),
    ({"text": "attic-alerts"}, "check"),
    ({"text": "floppy_disk warn"}, "check"),
    ({"text": "disk"}, "check invoices"),
    ({"text": "full disk"}, "invoices"),
    ({"text": "kettle"}, "tea"),
    ({"text": "stove-topic tea"}, "tea"),
    ({"text": "yesterday's summarize"}, "standup"),
    ({"text": "mood retro"}, "retro"),
    ({"text": "one_list_rocket"}, "rocket"),
    ({"text": "GIEßEN"}, "plants"),
    ({"text": "HÄUSLICH büro"}, "plants"),
    ({"text": "ОТЧЁТ ежедневный"}, "cyrillic"),
    ({"text": "日报 报告"}, "chinese"),
    ({"text": "工作"}, "chinese"),
    ({"text": "émile SÖHNE <b>"}, "accents"),
    ({"text": "%"}, "percent"),
    ({"text": 'say "cheese"'}, "percent"),
    ({"text": "r_s"}, "underscore"),
    ({"text": "k\\s"}, "backslash"),
    ({"text": 'quo"ted c:\\temp'}, "backslash"),
    ({"text": "' OR 1=1 --"}, "injection"),
    ({"text": "shown-path"}, "address secret"),
    ({"text": "4711"}, "address"),
    ({"text": "hidden-word"}, ""),
    ({"text": "ＮＩＧＨＴＬＹ"}, "backup"),
    ({"text": "nothing like this"}, ""),
    ({"tag": "HOME"}, "backup holiday"),
    ({"tag": "home-office"}, "weekly"),
    ({"tag": "office"}, ""),
    ({"tag": "warn"}, "check"),
    ({"tag": "büro"}, "plants"),
    ({"tag": 'QUO"ted'}, "backslash"),
    ({"task": "prompt"}, "standup retro"),
    ({"task": "notify", "text": "backup"}, "check"),
    ({"status": "paused"}, "holiday"),
    ({"status": "completed", "text": "report"}, "old"),
    ({"status": "failed"}, "invoices digest broken"),
    ({"status": "paused", "text": "nightly"}, ""),
    ({"outcome": "failed"}, "invoices digest broken"),
    ({"outcome": "failed", "text": "disk"}, "invoices"),
]


def page(owner: User) -> Door:
    client = session_of(owner)

    def ask(question: Question) -> set[str] | None:
        if "outcome" in question:
            return None
        asked = {"q" if name == "text" else name: value for name, value in question.items()}
        if asked.get("status") == "failed":
            # In their words, only a job that has failed for good is "failed".
            asked["status"] = ATTENTION
        return {job.public_id for job in client.get("/", asked).context["listed"].rows}

    return ask


def tool(owner: User) -> Door:
    set_local_caller(local_caller(owner, name="laptop"))

    def ask(question: Question) -> set[str]:
        asked: Any = {"query" if name == "text" else name: value for name, value in question.items()}
        answer: Any = list_jobs(**asked, limit=100)
        assert answer["total"] == len(answer["jobs"])
        return {job["job_id"] for job in answer["jobs"]}

    return ask


def bulk(owner: User) -> Door:
    set_local_caller(local_caller(owner, name="laptop"))

    def ask(question: Question) -> set[str] | None:
        if not question:
            return None
        asked: Any = {"query" if name == "text" else name: value for name, value in question.items()}
        answer: Any = bulk_jobs("delete", **asked)
        return {job["id"] for job in answer["jobs"]}

    return ask


def terminal(owner: User, capsys: pytest.CaptureFixture[str]) -> Door:
    def ask(question: Question) -> set[str]:
        options = [
            f"--{name}={value}" for name, value in question.items() if name in ("tag", "task", "status")
        ]
        failing = ["--failing"] if "outcome" in question else []
        text = ["--", question["text"]] if "text" in question else []
        capsys.readouterr()
        assert main(["jobs", "--json", "--user", owner.username, *options, *failing, *text]) == 0
        return {job["id"] for job in json.loads(capsys.readouterr().out)}

    return ask


@pytest.fixture
def jobs(owner: User, stranger: User) -> None:
    """Olga's jobs; and those of somebody else and in the trash, which no question finds."""
    now = clock.now()
    mine = [JobFactory.build(owner=owner, public_id=f"one_list_{key}", **row) for key, row in JOBS.items()]
    theirs = JobFactory.build(owner=stranger, name="Nightly backup of Sam", tags=["home"], recent="F")
    deleted = JobFactory.build(owner=owner, name="Deleted backup", tags=["home"], recent="F", deleted_at=now)
    Job.objects.bulk_create([*mine, theirs, deleted])


@pytest.fixture(params=["page", "bulk", "terminal"])
def door(
    request: pytest.FixtureRequest, owner: User, operator: User, capsys: pytest.CaptureFixture[str]
) -> Iterator[Door]:
    match request.param:
        case "page":
            yield page(owner)
        case "bulk":
            yield bulk(owner)
            set_local_caller(None)
        case "terminal":
            yield terminal(owner, capsys)


def wrong_answers(door: Door, questions: list[tuple[Question, str]]) -> dict[str, Any]:
    wrong = {}
    for question, keys in questions:
        found = door(question)
        expected = {f"one_list_{key}" for key in keys.split()}
        if found is not None and found != expected:
            wrong[str(question)] = {"missing": expected - found, "too many": found - expected}
    return wrong


def test_every_question_is_answered(owner: User, jobs: None):
    door = tool(owner)
    try:
        assert wrong_answers(door, QUESTIONS) == {}
    finally:
        set_local_caller(None)


def test_every_door_finds_the_same_jobs(door: Door, jobs: None):
    one_of_each_kind = {tuple(question): (question, keys) for question, keys in QUESTIONS}

    assert len(one_of_each_kind) > 6
    assert wrong_answers(door, list(one_of_each_kind.values())) == {}
