import json

import pytest

from verification.bench import report

QUIET = {"load_average": 0.1, "before": 0.01, "during": 0.02, "loop": 42, "is_heavy": False}


def burst(p99, settled=1.0, *, kind="coroutine", began=1000):
    return {
        "jobs": 1000,
        "began": began,
        "early": 0,
        "p50": p99 / 2,
        "p99": p99,
        "settled": settled,
        "limit": 30,
        "kind": kind,
    }


def measured(p99, *, kind="coroutine", load=QUIET, **measures):
    about = {"settings": "two workers", "versions": ["thing 1.0"], "runs_coroutines": kind == "coroutine"}
    single = {"jobs": 60, "began": 60, "early": 0, "p50": p99 / 100, "p99": p99 / 50, "kind": kind}
    results = {"single": single, "plain": burst(p99, kind="plain"), "large": burst(p99, kind=kind)}
    if kind == "coroutine":
        results["coroutines"] = burst(p99)
    taken = {"at": "2026-01-01 00:00", "load": load}
    return taken | {"about": about} | {key: result | taken for key, result in (results | measures).items()}


@pytest.fixture
def write(tmp_path):
    def write(**runs):
        path = tmp_path / "benchmarks.json"
        machine = {"cores": 2, "machine": "x86_64", "system": "Linux 6", "python": "3.11"}
        path.write_text(
            json.dumps(
                {"machine": machine, "runs": {name.replace("__", "/"): run for name, run in runs.items()}}
            )
        )
        report.write(path)
        return (tmp_path / "benchmarks.md").read_text()

    return write


def test_best_durable_system_is_bold_and_quicker_peers_are_named(write):
    page = write(cronty__sqlite=measured(0.2), huey__sqlite=measured(0.1), floor__sqlite=measured(0.01))

    assert "| 1,000 coroutines due at once: late by, p99 | 200 ms | **100 ms** | 10 ms |" in page
    assert "huey 100 ms against 200 ms (SQLite, `synchronous=FULL`)" in page
    assert "floor (bare loop) 10 ms against" not in page


def test_peer_that_is_quicker_only_at_the_p99_of_single_jobs_is_named(write):
    ours, theirs = measured(0.1), measured(0.2)
    theirs["single"]["p99"] = ours["single"]["p99"] / 2

    page = write(cronty__sqlite=ours, huey__sqlite=theirs)

    assert "| single jobs: late by, p50 / p99 | **1 / 2 ms** | 2 / 1 ms |" in page
    assert "huey 2 / 1 ms against 1 / 2 ms (SQLite, `synchronous=FULL`)" in page


def test_systems_are_compared_at_equal_durability_only(write):
    page = write(
        cronty__sqlite=measured(0.2),
        apscheduler__sqlite=measured(0.3),
        **{"cronty__sqlite-normal": measured(0.15)},
        celery__none=measured(0.1, kind="plain"),
    )

    assert "| 1,000 functions due at once: late by, p99 | **200 ms** | 300 ms |" in page
    assert "| 1,000 functions due at once: late by, p99 | 150 ms | **100 ms** |" in page
    assert (
        "Celery + Redis 100 ms against 150 ms (SQLite, `synchronous=NORMAL`, or a store of its own)" in page
    )
    assert "100 ms against 200 ms" not in page


def test_measures_that_were_repeated_have_a_line_of_their_own(write):
    run = measured(0.1)
    run["single"] |= {"at": "2026-01-02 00:00", "load": QUIET | {"loop": 50}}

    page = write(cronty__sqlite=run)

    assert "| 2026-01-01 00:00: coroutines, plain, large | 0.1; 1% / 2%; 42 ms |" in page
    assert "| Cronty, sqlite | | the same | 2026-01-02 00:00: single | 0.1; 1% / 2%; 50 ms |" in page


def test_page_says_so_when_no_peer_is_ahead(write):
    page = write(cronty__sqlite=measured(0.1), huey__sqlite=measured(0.2))

    assert "No peer is ahead" in page
    assert "**100 ms** | 200 ms |" in page


def test_absent_peer_is_reported_with_its_reason(write):
    page = write(**{
        "cronty__sqlite-normal": measured(0.1),
        "celery__none": {"absent": "no redis-server on PATH"},
    })  # fmt: skip

    assert "| **100 ms** | absent |" in page
    assert "| Celery + Redis | | absent: no redis-server on PATH | | |" in page


def test_figures_of_a_loaded_machine_and_of_plain_functions_are_marked(write):
    page = write(
        cronty__sqlite=measured(0.1, load=QUIET | {"during": 0.4, "is_heavy": True}),
        huey__sqlite=measured(0.2, kind="plain"),
    )

    assert "1,000 coroutines due at once: late by, p99 | **100 ms (loaded)** | 200 ms † |" in page
    assert "| 0.1; 1% / 40%; 42 ms |" in page


def test_burst_that_did_not_end_has_no_figure(write):
    page = write(cronty__sqlite=measured(0.1), huey__sqlite=measured(0.2, large=burst(0.2, None, began=700)))

    assert "all ended and stored | **1 s** | not in 30 s |" in page


def test_rates_are_drawn_with_the_slots_that_did_not_run(write, tmp_path):
    points = [
        {"rate": 100, "p50": 0.01, "p99": 0.02, "not_run": 0, "not_run_percent": 0.0},
        {"rate": 1000, "p50": 0.1, "p99": 0.4, "not_run": 60, "not_run_percent": 1.0},
    ]
    page = write(
        cronty__sqlite=measured(0.1),
        rates__sqlite={"at": "2026-01-03 00:00", "load": QUIET, "points": points},
    )

    assert (
        "- SQLite, 2026-01-03 00:00: every slot ran up to 100 a second; slots skipped or missed at 1000/s 1 %."
        in page
    )
    assert "<polyline" in (tmp_path / "benchmarks" / "rates.svg").read_text()


def test_page_in_the_docs_is_the_one_that_the_results_make():
    assert report.RESULTS.with_suffix(".md").read_text() == report.page(
        report.read(), report.RESULTS.with_suffix("")
    )
