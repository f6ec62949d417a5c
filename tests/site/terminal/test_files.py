"""The subcommands apply, export and schema."""

import io
import json
import os
import sys

import click
import pytest

from schedules.models import Event, Job, Profile

FILE = """
jobs:
  Stand-up:
    schedule: every weekday at 8:30
    task: notify
    arguments: {message: Stand up, topic: olga-phone}
  Ping:
    schedule: every day at 9:00
    task: tests.ping
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "jobs.yaml"
    path.write_text(FILE)
    return path


def test_file_is_checked_applied_and_then_unchanged(cronty, file):
    plan = cronty("apply", str(file), "--check")
    assert (plan.code, Job.objects.count()) == (6, 0)
    assert "+ Stand-up (notify, Every weekday at 08:30, Europe/Berlin)" in plan.out

    assert cronty("apply", str(file), "--yes").code == 0
    again = cronty("apply", str(file), "--check")

    assert (again.code, again.out) == (0, "jobs.yaml: nothing to do, 2 unchanged\n")
    assert set(Event.objects.values_list("door", flat=True)) == {"terminal"}
    assert "jobs.yaml" in cronty("show", "Ping").out


def test_plan_says_when_messages_in_quiet_hours_are_sent(cronty, file):
    assert "held" not in cronty("apply", str(file), "--check").out
    Profile.objects.update(quiet_hours="08:00-10:00")

    plan = cronty("apply", str(file), "--check")
    steps = cronty("apply", str(file), "--check", "--json").json["steps"]

    assert plan.out.count("is held and sent at 10:00.") == 1
    assert {step["key"]: len(step["warnings"]) for step in steps} == {"Stand-up": 1, "Ping": 0}


def test_nothing_happens_without_an_answer(cronty, file):
    ended = cronty("apply", str(file))

    assert ended.code == 1
    assert "use --yes" in ended.err
    assert not Job.objects.exists()


@pytest.mark.parametrize(("answer", "created"), [("n", 0), ("y", 2)])
def test_question_is_json_for_programs(cronty, file, monkeypatch, answer, created):
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{answer}\n"))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)

    ended = cronty("apply", str(file), "--json")

    question, *others = [json.loads(text) for text in ended.err.splitlines() if text]
    assert question == {"question": "Apply this?"}
    assert others == ([] if created else [{"error": "Nothing was changed.", "code": "declined"}])
    assert bool(ended.out) == bool(created)
    assert Job.objects.count() == created


def test_no_is_an_answer_that_changes_nothing(cronty, file, monkeypatch):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(click, "confirm", lambda question, *, err: not err)

    ended = cronty("apply", str(file))

    assert (ended.code, ended.err) == (1, "cronty: Nothing was changed.\n")
    assert not Job.objects.exists()


def test_pipe_has_no_name(cronty):
    reading, writing = os.pipe()
    os.write(writing, FILE.encode())
    os.close(writing)
    try:
        assert cronty("apply", f"/dev/fd/{reading}", "--yes").code == 2
        assert cronty("apply", f"/dev/fd/{reading}", "--source", "pipe", "--yes").code == 0
    finally:
        os.close(reading)
    assert set(Job.objects.values_list("source", flat=True)) == {"pipe"}


def test_folder_is_one_source(cronty, tmp_path):
    folder = tmp_path / "plans"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.yaml").write_text("jobs: {A: {task: tests.ping, schedule: every day at 9:00}}")
    (folder / "sub/b.yml").write_text("jobs: {B: {task: tests.ping, schedule: every day at 9:00}}")
    (folder / "notes.txt").write_text("not: [yaml")

    assert cronty("apply", str(folder), "--yes").code == 0
    (folder / "a.yaml").unlink()
    pruned = cronty("apply", str(folder), "--prune", "--yes")

    assert "- A" in pruned.out
    assert list(Job.objects.kept().values_list("name", "source")) == [("B", "plans/")]


def test_standard_input_needs_a_name(cronty, monkeypatch):
    class Input:
        buffer = io.BytesIO(FILE.encode())

    monkeypatch.setattr(sys, "stdin", Input())

    assert cronty("apply", "-").code == 2
    assert cronty("apply", "-", "--source", "pipe").code == 0
    assert set(Job.objects.values_list("source", flat=True)) == {"pipe"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"jobs: {A: {task: nothing, schedule: every day at 9:00}}", "jobs.yaml:1:18: A: Unknown task"),
        (b"jobs:\n  A: &x 1\n", "jobs.yaml:2:6: anchors"),
        (b"jobs:\n  \xff: 1\n", "jobs.yaml:2:3: this is not UTF-8 text."),
        (b"jobs: [", "jobs.yaml:2:1: this is not YAML"),
    ],
)
def test_wrong_file_changes_nothing_and_says_where(cronty, file, content, words):
    file.write_bytes(content)

    ended = cronty("apply", str(file), "--yes")

    assert ended.code == 1
    assert words in ended.err
    assert not Job.objects.exists()
    assert words in json.loads(cronty("apply", str(file), "--yes", "--json").err)["error"]


def test_missing_file_and_empty_folder(cronty, tmp_path):
    assert "No such file" in cronty("apply", str(tmp_path / "x.yaml")).err
    assert "there is no .yaml file" in cronty("apply", str(tmp_path)).err


def test_file_that_changes_while_it_is_read_is_refused(cronty, file, monkeypatch):
    real = os.fstat
    sizes = iter([FILE, FILE + "#"])

    def fstat(number: int) -> os.stat_result:
        file.write_text(next(sizes, FILE))
        return real(number)

    monkeypatch.setattr("cronty_site.terminal.here.os.fstat", fstat)

    ended = cronty("apply", str(file), "--yes")

    assert ended.code == 1
    assert "changed while it was read" in ended.err


def test_export_round_trips(cronty, file, tmp_path):
    cronty("apply", str(file), "--yes")
    first = cronty("export").out
    exported = tmp_path / "out.yaml"

    assert cronty("export", str(exported)).out == f"2 jobs in {exported}\n"
    assert exported.read_text() == first
    assert cronty("apply", str(exported), "--source", "jobs.yaml", "--check").code == 0
    assert cronty("export", str(exported)).code == 1
    assert cronty("export", str(exported), "--force", "--job", "Ping", "--json").json["jobs"] == 1
    assert "Stand-up" not in exported.read_text()
    assert cronty("export", "--source", "other.yaml", "--json").code == 3


@pytest.mark.parametrize(
    ("text", "left"), [("", 1), ("\n# nothing\n", 1), ("null\n", 1), ("---\njobs:\n", 1), ("jobs: {}\n", 0)]
)
def test_nothing_deletes_nothing_unless_it_is_said(cronty, file, tmp_path, text, left):
    cronty("apply", str(file), "--yes", "--source", "some")
    other = tmp_path / "other.yaml"
    other.write_text(text)

    cronty("apply", str(other), "--prune", "--yes", "--source", "some")

    assert Job.objects.filter(deleted_at=None, source="some").exists() == bool(left)


def test_all_problems_of_a_file_are_reported_at_once(cronty, tmp_path):
    path = tmp_path / "jobs.yaml"
    path.write_text(
        "jobs:\n"
        "  A: {task: nothing, schedule: '0 9 * * *', attempts: many}\n"
        "  B: {task: notify, schedule: never ever, arguments: {message: x, topic: y, priority: 99}}\n"
        "  C: {task: tests.ping, schedule: '0 9 * * *', overlap: often}\n"
    )

    refused = cronty("apply", str(path), "--yes")

    assert refused.code == 1
    assert refused.err.startswith("cronty: Nothing was changed (5 problems):\n")
    lines = [int(text.rpartition("jobs.yaml:")[2].split(":")[0]) for text in refused.err.splitlines()[1:]]
    assert lines == [2, 2, 3, 3, 4]
    assert "Unknown task: nothing" in refused.err
    assert "priority" in refused.err
    assert not Job.objects.exists()


def test_jobs_that_left_the_file_are_mentioned_unless_they_are_pruned(cronty, file):
    cronty("apply", str(file), "--yes")
    file.write_text("jobs: {}\n")

    kept = cronty("apply", str(file), "--yes")
    listed = cronty("apply", str(file), "--yes", "--json").json["unlisted"]
    pruned = cronty("apply", str(file), "--yes", "--prune")

    assert "No longer in jobs.yaml, but kept: " in kept.err
    assert all(name in kept.err for name in listed)
    assert len(listed) == 2
    assert "but kept" not in pruned.err
