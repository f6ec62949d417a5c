"""The subcommands apply, export and schema."""

import io
import json
import os
import sys

import click
import pytest

from schedules.models import Event, Job

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


def test_file_is_checked_applied_and_then_unchanged(cronty, file, door):
    plan = cronty("apply", str(file), "--check")
    assert (plan.code, Job.objects.count()) == (6, 0)
    assert "+ Stand-up (notify, Every weekday at 08:30, Europe/Berlin)" in plan.out

    assert cronty("apply", str(file), "--yes").code == 0
    again = cronty("apply", str(file), "--check")

    assert (again.code, again.out) == (0, "jobs.yaml: nothing to do, 2 unchanged\n")
    assert set(Event.objects.values_list("door", flat=True)) == {door}
    assert "jobs.yaml" in cronty("show", "Ping").out


def test_change_by_hand_is_drift_until_the_next_apply(cronty, file):
    cronty("apply", str(file), "--yes")
    Job.objects.filter(name="Ping").update(cron="0 7 * * *")

    assert cronty("show", "Ping", "--json").json["managed_by"] == "jobs.yaml (changed since it was applied)"
    applied = cronty("apply", str(file), "--yes", "--json").json
    assert applied["applied"]
    assert [(step["action"], step["key"], step["changes"][0]["field"]) for step in applied["steps"]] == [
        ("change", "Ping", "schedule")
    ]


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


def test_jobs_move_from_file_to_file(cronty, file, tmp_path):
    cronty("apply", str(file), "--yes")
    exported = tmp_path / "exported.yaml"
    assert cronty("export", str(exported)).code == 0

    again = cronty("apply", str(exported), "--yes")

    ping = Job.objects.get(name="Ping")
    assert again.code == 0
    assert f"~ Ping (takes over #{ping.pk} of jobs.yaml)" in again.out
    assert set(Job.objects.values_list("source", flat=True)) == {"exported.yaml"}
    file.write_text("jobs: {}")
    assert cronty("apply", str(file), "--prune", "--yes").code == 0
    assert Job.objects.kept().count() == 2


def test_other_job_of_the_same_name_stays_in_its_file(cronty, file, tmp_path):
    cronty("apply", str(file), "--yes")
    other = tmp_path / "other.yaml"
    other.write_text(FILE.replace("9:00", "10:00"))

    assert cronty("apply", str(other), "--yes").code == 0

    assert sorted(Job.objects.filter(name="Ping").values_list("source", flat=True)) == [
        "jobs.yaml",
        "other.yaml",
    ]


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


def test_end_in_a_repeated_hour_stays_as_it_is(cronty, tmp_path):
    file = tmp_path / "end.yaml"
    file.write_text(
        "timezone: Europe/Berlin\njobs: {A: {task: tests.ping, schedule: every day at 9:00,"
        ' ends_at: "2030-10-27T02:30"}}'
    )
    assert cronty("apply", str(file), "--yes").code == 0

    assert cronty("apply", str(file), "--check").code == 0
    file.write_text(file.read_text().replace("2030-10-27T02:30", "2030-12-31"))
    assert "ends_at: 2030-10-27T02:30:00+02:00 → 2030-12-31\n" in cronty("apply", str(file), "--check").out


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

    monkeypatch.setattr("cronty_site.terminal.elsewhere.local_actions.os.fstat", fstat)

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


def test_schema_names_the_tasks_of_this_installation(cronty):
    schema = json.loads(cronty("schema").out)

    job = schema["properties"]["jobs"]["additionalProperties"]
    assert "tests.ping" in job["properties"]["task"]["enum"]


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


def test_problems_beyond_the_listed_ones_are_counted(cronty, tmp_path):
    path = tmp_path / "jobs.yaml"
    path.write_text("jobs:\n" + "".join(f"  J{number}: x\n" for number in range(200)))

    refused = cronty("apply", str(path), "--yes")

    assert "(200 problems)" in refused.err
    assert refused.err.endswith("… and 150 more\n")


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
