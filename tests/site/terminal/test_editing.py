"""The subcommand edit."""

import io
import json
from datetime import timedelta
from pathlib import Path

import pytest

from schedules import services
from schedules.models import Job
from schedules.secrets import masking
from schedules.services import Actor
from tests.factories import JobFactory


@pytest.fixture
def job(owner):
    return JobFactory(
        owner=owner,
        name="Hook",
        cron="0 9 * * *",
        task="webhook",
        args=["https://x.example/"],
        kwargs={"headers": {"Authorization": "hunter2"}, "method": "PUT"},
        tags=["home"],
    )


@pytest.fixture
def editor(monkeypatch, tmp_path):
    """Return a function that sets what the editor does to the text; it keeps the paths it was given."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("EDITOR", "ed")
    paths: list[Path] = []

    def use(change):
        def edit(*, filename: str) -> None:
            paths.append(Path(filename))
            paths[-1].write_text(change(paths[-1].read_text()))

        monkeypatch.setattr("cronty_site.terminal.here.click.edit", edit)
        return paths

    return use


def test_fields_are_changed_by_options(cronty, job):
    ended = cronty(
        "edit", "Hook", "--name", "Call", "--schedule", "every weekday at 8:30", "--timezone", "Asia/Tokyo",
        "--tag", "a", "--tag", "b", "--attempts", "2", "--timeout", "5m", "--at-most-once",
        "--pause-after-failures", "3", "--max-runs", "9", "--until", "2099-01-01", "--label", "x",
    )  # fmt: skip

    job.refresh_from_db()
    assert (ended.code, ended.out[:14]) == (0, "Changed: Call ")
    assert (job.name, job.cron, job.timezone, job.tags) == ("Call", "30 8 * * 1-5", "Asia/Tokyo", ["a", "b"])
    assert (job.attempts, job.timeout, job.at_most_once) == (2, timedelta(minutes=5), True)
    assert (job.pause_after_failures, job.max_runs, job.label) == (3, 9, "x")
    assert f"{job.ends_at:%Y-%m-%dT%H}" == "2099-01-01T14"


def test_arguments_are_changed_one_by_one_and_secrets_stay(cronty, job):
    changed = cronty("edit", "Hook", 'body:={"a": 1}', "method:=null", "--json")

    job.refresh_from_db()
    assert changed.json["kwargs"]["headers"] == {"Authorization": masking.MASK}
    assert job.args == ["https://x.example/"]
    assert job.kwargs == {"headers": {"Authorization": "hunter2"}, "body": {"a": 1}}
    assert cronty("edit", "Hook", "url=https://other.example/").code == 1
    assert "Did you mean body=?" in cronty("edit", "Hook", "bodi=x").err


def test_options_leave_the_other_fields_alone(cronty, job):
    before = Job.objects.values().get()

    assert cronty("edit", "Hook", "--no-at-most-once").out.startswith("Nothing changed: Hook")
    assert Job.objects.values().get() == before

    cronty("edit", "Hook", "--tag", "")
    after = Job.objects.values().get()
    changed = {name for name in before if before[name] != after[name]}
    assert (after["tags"], changed) == ([], {"tags", "revision", "updated_at", "likeness", "search_text"})


def test_wrong_options_change_nothing(cronty, job):
    before = Job.objects.values().get()
    for options, code in [
        (["--attempts", "99"], 2),
        (["--schedule", "every blue moon"], 2),
        (["--file", "x.yaml", "--name", "x"], 2),
        (["--file", "/no/such/file.yaml"], 1),
    ]:
        assert cronty("edit", "Hook", *options).code == code
        assert Job.objects.values().get() == before


def test_document_is_changed_in_the_editor(cronty, job, editor):
    paths = editor(
        lambda text: text.replace("0 9 ", "0 7 ").replace("- home", "- work") + "    paused: true\n"
    )

    ended = cronty("edit", "Hook")

    job.refresh_from_db()
    assert (ended.code, ended.out) == (0, f"Changed: Hook (#{job.pk})\n")
    assert (job.cron, job.tags, job.status) == ("0 7 * * *", ["work"], "paused")
    assert job.kwargs["headers"] == {"Authorization": "hunter2"}
    assert not job.source
    assert not paths[0].exists()


def test_document_masks_secrets_and_is_for_its_owner_alone(cronty, job, editor):
    seen: list[tuple[str, int]] = []

    def look(text: str) -> str:
        seen.append((text, paths[-1].stat().st_mode & 0o777))
        return text

    paths = editor(look)
    cronty("edit", "Hook")

    assert "hunter2" not in seen[0][0]
    assert masking.MASK in seen[0][0]
    assert seen[0][1] == 0o600


def test_unchanged_document_changes_nothing(cronty, job, editor):
    before = Job.objects.values().get()
    paths = editor(lambda text: text)

    ended = cronty("edit", "Hook")

    assert (ended.code, ended.out) == (0, f"Nothing changed: Hook (#{job.pk})\n")
    assert Job.objects.values().get() == before
    assert not paths[0].exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text + "\t%broken",
        lambda text: text.replace("0 9 ", "99 9 "),
        lambda text: text.replace("task: webhook", "task: nothing"),
        lambda text: text.replace("schedule:", "skedule:"),
        lambda text: "jobs: {}",
        lambda text: "",
    ],
    ids=["syntax", "schedule", "task", "field", "no job", "empty"],
)
def test_broken_document_changes_nothing_and_is_kept(cronty, job, editor, change):
    before = Job.objects.values().get()
    paths = editor(change)

    refused = cronty("edit", "Hook", "--json")

    error = json.loads(refused.err)
    assert (refused.code, error["code"]) == (1, "invalid")
    assert f"cronty edit {job.pk} --file {paths[0]}" in error["error"]
    assert paths[0].exists()
    assert Job.objects.values().get() == before


def test_document_of_a_job_that_changed_meanwhile_is_a_conflict_and_kept(cronty, job, owner, editor):
    def change(text: str) -> str:
        services.edit(Actor(owner), job.public_id, name="Renamed")
        return text.replace("0 9 ", "0 7 ")

    paths = editor(change)

    refused = cronty("edit", "Hook")

    job.refresh_from_db()
    assert refused.code == 1
    assert "Somebody else changed this job meanwhile" in refused.err
    assert str(paths[0]) in refused.err
    assert (job.name, job.cron) == ("Renamed", "0 9 * * *")
    assert "0 7 " in paths[0].read_text()


def test_job_that_cannot_be_changed_opens_no_editor(cronty, owner, editor):
    JobFactory(owner=owner, name="Old", status="cancelled", next_run_at=None)
    paths = editor(lambda text: text)

    assert "Job already cancelled" in cronty("edit", "Old").err
    assert paths == []


def test_editor_of_the_environment_is_started(cronty, job, monkeypatch, tmp_path):
    script = tmp_path / "editor"
    script.write_text("#!/bin/sh\nsed -i 's/0 9 /0 7 /' \"$1\"\n")
    script.chmod(0o700)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", str(script))

    assert cronty("edit", "Hook").code == 0

    job.refresh_from_db()
    assert job.cron == "0 7 * * *"


def test_without_a_terminal_and_an_editor_nothing_is_started(cronty, job, monkeypatch):
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO())

    refused = cronty("edit", "Hook")

    assert (refused.code, refused.err[:38]) == (1, "cronty: There is nobody to edit: give ")


def test_permissions_are_replaced_and_taken_away(cronty, owner, use_runners):
    use_runners('[notes]\ndescription = "x"\nkind = "claude"\ngrantable = ["*"]\nallow = ["everyone"]\n')
    kwargs = {"prompt": "Push it.", "runner": "notes"}
    job = JobFactory(owner=owner, name="Push", task="prompt", kwargs=kwargs, grants=["Bash"])

    cronty("edit", "Push", "--grant", "Bash(git push:*)")
    job.refresh_from_db()
    assert job.grants == ["Bash(git push:*)"]

    cronty("edit", "Push", "--grant", "")
    job.refresh_from_db()
    assert job.grants == []
