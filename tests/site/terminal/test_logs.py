"""The subcommand logs."""

from schedules import clock, engine
from schedules.tasks.interface import OutputText
from tests.factories import ExecutionFactory, JobFactory, agent_run

USED = {"exit_code": 0, "signal": None, "cpu_seconds": 0.25, "peak_memory_bytes": 12_300_000}


def test_last_runs_come_oldest_first(cronty, owner, stranger):
    job = JobFactory(owner=owner, name="Backup")
    runs = [
        ExecutionFactory(job=job, owner=owner, status="succeeded", result=f"number {n}") for n in range(3)
    ]
    ExecutionFactory(owner=stranger)

    assert [run["run"] for run in cronty("logs", "--json").json] == [run.pk for run in runs]
    assert [run["run"] for run in cronty("logs", "Backup", "-n", "1", "--json").json] == [runs[-1].pk]
    assert "Backup: number 2" in cronty("logs").out


def test_one_run_is_shown_in_full(cronty, owner, stranger):
    job = JobFactory(owner=owner)
    run = ExecutionFactory(job=job, owner=owner, status="failed", error="first line\nsecond line\x1b[31m")
    theirs = ExecutionFactory(owner=stranger)

    assert "first line\nsecond line[31m" in cronty("logs", "--run", str(run.pk)).out
    assert cronty("logs", "--run", str(theirs.pk)).code == 3


def test_outcome_of_a_command_is_its_output_its_error_and_what_it_used(cronty, owner):
    used = {"exit_code": 3, "signal": None, "cpu_seconds": 0.25, "peak_memory_bytes": 12_300_000}
    job = JobFactory(owner=owner, name="Backup")
    run = ExecutionFactory(
        job=job,
        owner=owner,
        status="failed",
        attempt=1,
        error="backup ended with code 3.",
        result={**used, "output": "disk full"},
    )
    engine.save_output(run.pk, 1, OutputText("copying\ndisk full", "", 17))
    quiet = ExecutionFactory(
        job=job, owner=owner, status="succeeded", result={**used, "output": "all\ncopied"}
    )

    shown = cronty("logs", "--run", str(run.pk))

    assert shown.out.endswith("copying\ndisk full\nbackup ended with code 3.\n")
    assert shown.err == "exit code 3, 0.25 s of CPU, 12 MB\n"
    assert cronty("logs", "Backup").out.rstrip().endswith(" all copied")
    assert "{" not in cronty("logs", "--run", str(quiet.pk)).out


def test_run_of_an_agent_shows_verdict_usage_and_denials(cronty, owner):
    run = agent_run(owner).execution

    shown = cronty("logs", "--run", str(run.pk))

    assert shown.err.splitlines() == [
        "Refused, by runner notes, 3 turns, 1,200 tokens read, 34 written, $0.05.",
        "Not permitted: Bash git push",
    ]
    assert cronty("logs", "--run", str(run.pk), "--json").json["agent"]["verdict"] == "refused"


def test_other_results_are_shown_as_json(cronty, owner):
    run = ExecutionFactory(
        job=JobFactory(owner=owner), owner=owner, status="succeeded", result={"sent": True}
    )

    assert cronty("logs", "--run", str(run.pk)).out.endswith('{"sent": true}\n')


def test_follow_prints_a_run_again_when_its_status_changes(cronty, owner, monkeypatch):
    job = JobFactory(owner=owner)
    ExecutionFactory(job=job, owner=owner, status="succeeded")
    run = ExecutionFactory(job=job, owner=owner, status="running")
    steps = iter(["running", "succeeded"])

    def step(seconds: float) -> None:
        if (status := next(steps, None)) is None:
            raise KeyboardInterrupt
        type(run).objects.filter(pk=run.pk).update(status=status, finished_at=clock.now())

    monkeypatch.setattr("cronty_site.terminal.logs.time.sleep", step)

    ended = cronty("logs", "--follow", "-n", "1")

    assert [
        word for line in ended.out.splitlines() for word in line.split() if word in ("running", "succeeded")
    ] == [
        "running",
        "succeeded",
    ]
    assert ended.code == 130


def test_output_of_a_command_is_followed_until_it_ends(cronty, owner, monkeypatch):
    run = ExecutionFactory(job=JobFactory(owner=owner), owner=owner, status="running", attempt=1)
    engine.save_output(run.pk, 1, OutputText("first\n", "", 6))

    def step(seconds: float) -> None:
        engine.save_output(run.pk, 1, OutputText("first\nlast\x1b[31m\n", "", 16))
        type(run).objects.filter(pk=run.pk).update(status="succeeded", finished_at=clock.now())

    monkeypatch.setattr("cronty_site.terminal.logs.time.sleep", step)

    followed = cronty("logs", "--run", str(run.pk), "--follow")

    assert followed.code == 0
    assert followed.out.endswith("first\nlast[31m\n")


def test_follow_of_a_job_prints_the_output_of_its_runs(cronty, owner, monkeypatch):
    job = JobFactory(owner=owner, name="Backup")
    run = ExecutionFactory(job=job, owner=owner, status="running", attempt=1)
    engine.save_output(run.pk, 1, OutputText("first\nsec", "", 9))
    printed = {**USED, "output": "first second third"}

    def print_more() -> None:
        engine.save_output(run.pk, 1, OutputText("first\nsecond\n", "", 13))

    def end() -> None:
        engine.save_output(run.pk, 1, OutputText("first\nsecond\nthird", "", 18))
        type(run).objects.filter(pk=run.pk).update(status="succeeded", result=printed)

    def run_quickly() -> None:
        quick = ExecutionFactory(job=job, owner=owner, status="failed", attempt=1, error="disk full")
        engine.save_output(quick.pk, 1, OutputText("fourth\n", "", 7))

    steps = iter([print_more, end, run_quickly])

    def step(seconds: float) -> None:
        if (change := next(steps, None)) is None:
            raise KeyboardInterrupt
        change()

    monkeypatch.setattr("cronty_site.terminal.logs.time.sleep", step)

    lines = cronty("logs", "Backup", "-f").out.splitlines()

    assert "running" in lines[0]
    assert lines[1:4] == ["first", "second", "third"]
    assert "succeeded" in lines[4]
    assert lines[4].endswith("exit code 0, 0.25 s of CPU, 12 MB")
    assert lines[5] == "fourth"
    assert lines[6].endswith("failed disk full")
    assert len(lines) == 7
