import signal
import subprocess

import psutil
import pytest

from verification.bench import run


def test_name_of_a_system_stands_for_its_runs_on_every_database():
    assert run.select(["procrastinate", "floor/sqlite", "django_tasks_db"]) == [
        "django_tasks_db/sqlite",
        "floor/sqlite",
        "django_tasks_db/sqlite-normal",
        "procrastinate/postgresql",
        "django_tasks_db/postgresql",
    ]
    assert run.select([]) == list(run.RUNS)


def test_unknown_system_is_refused():
    with pytest.raises(SystemExit, match="unknown: rq;"):
        run.select(["rq"])


def test_program_is_stopped_at_its_time_limit():
    assert run._lines(["sleep", "600"], "", 1) == ([], "stopped after 1 s")


def test_everything_that_a_program_started_ends_with_it():
    program = subprocess.Popen(
        ["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE, start_new_session=True
    )
    assert program.stdout
    with program.stdout as output:
        child = psutil.Process(int(output.readline()))

    run._end_group(program)

    assert program.returncode == -signal.SIGKILL
    # A killed process can take a moment to disappear.
    psutil.wait_procs([child], timeout=20)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_last_line_of_a_failed_program_is_the_problem():
    lines, problem = run._lines(["sh", "-c", "echo '{}'; echo first >&2; echo last >&2; exit 3"], "", 60)

    assert (lines, problem) == (["{}"], "last")


def test_line_of_a_sustained_rate_becomes_a_point():
    (point,) = run._points(
        "sqlite_sustained_250 p50 8.1 ms p99 20.5 ms not_run 30 (2.0 %) settled 1470 cpu …"
    )

    assert point == {"rate": 250, "p50": 0.0081, "p99": 0.0205, "not_run": 30, "not_run_percent": 2.0}


@pytest.mark.verify
def test_name_of_a_run_says_how_sqlite_commits(monkeypatch):
    monkeypatch.setattr(run, "wait_for_rest", lambda seconds: None)
    tell = ["sh", "-c", "echo {}; echo $BENCH_SYNCHRONOUS >&2; exit 1"]
    original = run._lines
    monkeypatch.setattr(run, "_lines", lambda command, *others: original(tell, *others))

    problems = [
        run.measure(name, ["single"], 60)["problem"] for name in ("cronty/sqlite", "cronty/sqlite-normal")
    ]

    assert problems == ["FULL", "NORMAL"]
