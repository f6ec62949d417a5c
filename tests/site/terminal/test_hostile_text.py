"""What any subcommand prints: hostile text in jobs, runs and files never reaches the terminal as a command."""

import re
from datetime import timedelta

import pytest

from schedules import clock, engine
from schedules.models import Event, Job
from schedules.tasks.interface import OutputText
from tests.factories import ExecutionFactory, JobFactory

# A title, a cleared screen, a C1 sequence, a backspace, and characters that reorder or hide text.
HOSTILE = "x\x1b]0;owned\x07\x1b[2J\x9b31m\x08\r\x7f\u202egnp\u2066\u200by\u2028z"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture
def job(owner) -> Job:
    now = clock.now()
    job = JobFactory(
        owner=owner,
        name=f"Evil {HOSTILE}",
        label=HOSTILE,
        tags=[HOSTILE],
        kwargs={"text": HOSTILE, HOSTILE: 1},
        last_error=HOSTILE,
        pause_reason=HOSTILE,
        made_by=HOSTILE,
        source=HOSTILE,
        source_key=HOSTILE,
    )
    JobFactory(owner=owner, name=job.name)
    for number, status in enumerate(("failed", "succeeded")):
        run = ExecutionFactory(
            job=job,
            owner=owner,
            status=status,
            attempt=1,
            error=HOSTILE,
            reason=HOSTILE,
            result=HOSTILE,
            scheduled_for=now - timedelta(minutes=number),
        )
        engine.save_output(run.pk, 1, OutputText(HOSTILE, HOSTILE, 2 * len(HOSTILE)))
    Event.objects.create(
        at=now, owner=owner, actor=HOSTILE, door="web", verb="paused", subject=HOSTILE, job=job
    )
    return job


COMMANDS = [
    "jobs",
    "show {job}",
    "next",
    "next {job}",
    "why {job}",
    "logs",
    "logs {job}",
    "logs --run {run}",
    "logs --run {other}",
    "run {job}",
    "pause {job}",
    "resume {job}",
    "skip {job}",
    "cancel {job}",
    "restore {job}",
    "export",
    "rm {job}",
]


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_stored_text_is_printed_without_what_a_terminal_obeys(cronty, job, as_json, monkeypatch):
    runs = list(job.executions.values_list("pk", flat=True))
    for command in COMMANDS:
        words = [word.format(job=job.pk, run=runs[0], other=runs[1]) for word in command.split()]

        with monkeypatch.context() as patch:
            if command == "export":
                # A file or a pipe gets every character.
                patch.setattr("sys.stdout.isatty", lambda: True)
            ended = cronty(*words, *(["--json"] if as_json else []))

        assert ended.code == 0 or "cronty:" in ended.err or '"error"' in ended.err, command
        assert OBEYED.findall(ended.out + ended.err) == [], command


def test_error_quotes_hostile_words_without_what_a_terminal_obeys(cronty, job):
    for command in [
        ["show", f"Evil {HOSTILE}"],
        ["show", HOSTILE],
        [HOSTILE],
        ["jobs", f"--{HOSTILE}"],
        ["jobs", "--user", HOSTILE],
        ["jobs", "--status", HOSTILE],
        ["why", "Evil", HOSTILE],
        ["preview", HOSTILE],
        ["add", HOSTILE, "tests.ping"],
        ["add", "every hour", HOSTILE],
        ["add", "every hour", "tests.ping", f"{HOSTILE}=1"],
        ["add", "every hour", "tests.ping", "--timezone", HOSTILE],
        ["apply", HOSTILE],
        ["secret", HOSTILE, "--delete"],
        ["token", HOSTILE],
        ["backup", f"/nonexistent/{HOSTILE}"],
    ]:
        for as_json in [False, True]:
            ended = cronty(*command, *(["--json"] if as_json else []))

            assert ended.code != 0
            assert OBEYED.findall(ended.out + ended.err) == []


ESCAPED = "x\\e]0;owned\\a\\e[2J\\x9B31m\\b\\u202Egnp\\u200By\\u2028z"


def test_file_is_described_without_what_a_terminal_obeys(cronty, tmp_path):
    file = tmp_path / "jobs.yaml"
    for text in [
        'jobs:\n  - name: "NAME"\n    task: tests.ping\n    when: every hour\n',
        'jobs:\n  - name: Tea\n    task: "NAME"\n    when: every hour\n',
        'jobs:\n  - name: Tea\n    task: tests.ping\n    when: "NAME"\n',
        'jobs:\n  - name: Tea\n    task: tests.ping\n    when: every hour\n    "NAME": 1\n',
        'jobs:\n  - name: Tea\n    task: tests.echo\n    when: every hour\n    args:\n      "NAME": 1\n',
        '"NAME": 1\n',
    ]:
        for as_json in [False, True]:
            file.write_text(text.replace("NAME", ESCAPED))

            ended = cronty("apply", str(file), "--check", *(["--json"] if as_json else []))

            assert ended.code != 0
            assert OBEYED.findall(ended.out + ended.err) == []


def test_json_for_a_program_keeps_every_character(cronty, job):
    assert cronty("show", str(job.pk), "--json").json["name"] == job.name
