"""The run list, the page of one run, and exports."""

import csv
import io
import re
import tracemalloc
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import User
from django.test import AsyncRequestFactory, Client

from schedules import clock, engine
from schedules.models import Event, Execution, Job, RunOutput
from schedules.tasks.interface import OutputText
from schedules.web.views import runs as exports
from schedules.web.views.run import response_of
from schedules.web.views.runs import COLUMNS, _without_formula, export
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory
from tests.web.html import html_of


@pytest.fixture
def job(owner: User) -> Job:
    return JobFactory(owner=owner, name="Backup")


def test_runs_are_filtered_by_the_query_string(web: Client, job: Job):
    ExecutionFactory(job=job, status="failed")
    ExecutionFactory(job=job, cause="manual")

    for asked, count in (
        ({"status": "failed"}, 1),
        ({"status": "nonsense"}, 2),
        ({"cause": "manual"}, 1),
        ({"q": "back"}, 2),
        ({"since": "yesterday"}, 2),
        ({"until": "2020-01-01 00:00"}, 0),
        ({"job": "unknown"}, 0),
    ):
        assert len(web.get("/runs/", asked).context["listed"].rows) == count, asked


def test_run_page_shows_the_error_first(web: Client, job: Job):
    now = clock.now()
    run = ExecutionFactory(
        job=job,
        status="failed",
        attempt=2,
        error="disk full",
        traceback="Traceback: x",
        result={"a": 1},
        started_at=now,
        finished_at=now + timedelta(seconds=2),
        lateness=timedelta(milliseconds=40),
    )

    page = web.get(f"/runs/{run.pk}/").content.decode()

    assert page.index("disk full") < page.index("Failed after 2 attempts.") < page.index("&quot;a&quot;: 1")


def test_page_of_a_run_has_a_line_per_attempt(web: Client, job: Job):
    Job.objects.filter(pk=job.pk).update(attempts=3)
    now = clock.now()
    run = ExecutionFactory(job=job, status="queued", attempt=1, started_at=now, error="HTTP 503")
    run.earlier_attempts = run.attempt_ended(now + timedelta(seconds=2), "HTTP 503")
    run.available_at = now + timedelta(minutes=1)
    run.save()

    answer = web.get(f"/runs/{run.pk}/")

    assert [(each.number, each.state, each.took) for each in answer.context["attempts"]] == [
        (1, "failed", timedelta(seconds=2)),
        (2, "retrying", None),
    ]
    page = html_of(answer)
    assert "<b>Attempt 1 of 3</b>" in page
    assert '<span class="a-error">HTTP 503</span>' in page
    assert re.search(
        r"<b>Attempt 2 of 3</b> <span class=\"mut\">starts <time [^>]*>in \d+ (s|min)</time>", page
    )


def test_response_is_written_for_reading():
    for task, result, shown in [
        (
            "webhook",
            {"status": 200, "body": '{"a":[1]}'},
            ("Response: HTTP 200", '{\n  "a": [\n    1\n  ]\n}'),
        ),
        ("webhook", {"status": 204, "body": ""}, ("Response: HTTP 204", "The response is empty.")),
        ("webhook", {"status": 200, "body": "{not json}"}, ("Response: HTTP 200", "{not json}")),
        ("tests.ping", "done", ("Output", "done")),
        ("tests.ping", {"a": 1}, ("Output", '{\n  "a": 1\n}')),
        ("tests.ping", None, ("", "")),
    ]:
        assert response_of(Execution(task=task, result=result)) == shown


def test_output_is_downloaded_as_plain_text(web: Client, job: Job):
    run = ExecutionFactory(job=job, result="<script>alert(1)</script>")

    answer = web.get(f"/runs/{run.pk}/output.txt")

    assert answer["Content-Type"].startswith("text/plain")
    assert "attachment" in answer["Content-Disposition"]
    assert b"<script>" in answer.content


def test_csv_export_is_filtered_and_contains_no_formulas(web: Client, owner: User):
    evil = JobFactory(owner=owner, name="=HYPERLINK(1)")
    ExecutionFactory(job=evil, status="failed", error="@SUM(1)")
    ExecutionFactory(job=evil, cause="manual")

    answer = web.get("/runs/export.csv?status=failed")

    rows = list(csv.DictReader(io.StringIO(b"".join(answer).decode())))
    assert tuple(rows[0]) == COLUMNS
    assert [(row["job"], row["error"]) for row in rows] == [("'=HYPERLINK(1)", "'@SUM(1)")]


def test_csv_export_escapes_formulas_after_white_space():
    for text in ["\n=1+1", "\t=1", "\r@SUM(1)", "  +1", " \u200b\n-1", "\ufeff=1", "\uff1d1", "\n", "\x0b=1"]:
        assert _without_formula(text) == f"'{text}"


def exported(web: Client) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(b"".join(web.get("/runs/export.csv")).decode())))


def test_export_in_chunks_has_every_run_once(web: Client, job: Job, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(exports, "CHUNK_ROWS", 2)
    now = clock.now()
    # Several runs of the same moment, on both sides of a chunk's end.
    runs = [ExecutionFactory(job=job, scheduled_for=now, cause="manual") for _ in range(5)]
    runs += [
        ExecutionFactory(job=job, scheduled_for=now - timedelta(minutes=1), cause="manual") for _ in "12"
    ]

    rows = exported(web)

    expected = sorted(runs, key=lambda run: (run.scheduled_for, run.pk), reverse=True)
    assert [int(row["id"]) for row in rows] == [run.pk for run in expected]


def test_export_ends_at_its_limit_and_shortens_errors(web: Client, job: Job, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(exports, "CHUNK_ROWS", 2)
    monkeypatch.setattr(exports, "MAX_ROWS", 4)
    for number in range(6):
        ExecutionFactory(job=job, status="failed", error="x" * (199 + number), cause="manual")

    rows = exported(web)

    assert len(rows) == 4
    assert {len(row["error"].removesuffix("… (shortened)")) for row in rows} == {200}


@pytest.mark.django_db(transaction=True)
def test_export_under_asgi_holds_one_chunk_at_a_time(owner: User, job: Job):
    now, large = clock.now(), "x" * 16_384
    Execution.objects.bulk_create(
        [
            Execution.of(
                job, now, cause="manual", status="failed", error=large, traceback=large, result=large
            )
            for _ in range(500)
        ],
        batch_size=100,
    )

    async def download() -> tuple[int, int]:
        request = AsyncRequestFactory().get("/runs/export.csv")
        request.user = owner
        size = 0
        tracemalloc.start()
        try:
            response = await sync_to_async(export)(request)
            async for chunk in response:
                size += len(chunk)
            return size, tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    size, peak = async_to_sync(download)()

    # The errors alone are 8 MB.
    assert size > 500 * 200
    assert peak < 5_000_000


WAIT = """
[wait]
description = "Wait."
program = "/bin/true"
allow = ["everyone"]
"""


def test_page_of_a_command_follows_its_output_and_then_says_how_it_ended(
    web: Client, other: Client, job: Job, use_commands
):
    use_commands(WAIT)
    run = ExecutionFactory(job=job, task="wait", status="running", attempt=1)
    engine.save_output(run.pk, 1, OutputText("Halfway <b>there</b>\n", "", 21))

    page = html_of(web.get(f"/runs/{run.pk}/"))
    part = web.get(f"/runs/{run.pk}/console/")

    assert f'hx-get="/runs/{run.pk}/console/"' in page
    for text in (page, part.content.decode()):
        assert "Halfway &lt;b&gt;there&lt;/b&gt;" in text
    assert other.get(f"/runs/{run.pk}/console/").status_code == 404

    run.status, run.finished_at = "succeeded", clock.now()
    run.result = {
        "exit_code": 0,
        "signal": None,
        "cpu_seconds": 1.5,
        "peak_memory_bytes": 3_000_000,
        "output": "x",
    }
    run.save()
    page = html_of(web.get(f"/runs/{run.pk}/"))
    assert "hx-get" not in web.get(f"/runs/{run.pk}/console/").content.decode()
    assert "Exit code 0." in page
    assert "1.50 s of CPU time" in page
    assert "Halfway <b>there" in web.get(f"/runs/{run.pk}/output.txt").content.decode()


def test_running_command_is_stopped_by_its_owner_only(web: Client, other: Client, job: Job, use_commands):
    use_commands(WAIT)
    cluster = ClusterFactory()
    run = ExecutionFactory(job=job, task="wait", status="running", attempt=1, cluster=cluster)
    plain = ExecutionFactory(job=job, task="tests.ping", status="running", attempt=1, cluster=cluster)
    address = f"/runs/{run.pk}/stop/"
    assert address in html_of(web.get(f"/runs/{run.pk}/"))
    assert other.post(address).status_code == 404

    for stopped in (run, plain):
        assert web.post(f"/runs/{stopped.pk}/stop/").status_code == 303
    again = html_of(web.post(address, follow=True))

    run.refresh_from_db()
    plain.refresh_from_db()
    assert (run.status, run.reason, run.lease_until) == ("cancelled", "Stopped by olga.", None)
    assert plain.status == "running"
    assert "This run has already ended." in again
    assert Event.objects.get().verb == "stop"
    assert engine.find_lost(cluster.pk, {run.pk: 1}) == [run.pk]


def test_chips_count_the_newest_runs_by_status(web: Client, owner: User, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("schedules.services.run_list.COUNTED_RUNS", 3)
    now = clock.now()
    for minute, status in enumerate(["failed", "succeeded", "failed", "lost"]):
        ExecutionFactory(
            job=JobFactory(owner=owner), status=status, scheduled_for=now - timedelta(minutes=minute)
        )

    assert web.get("/runs/").context["counts"] == {"succeeded": 1, "failed": 2}
    assert web.get("/runs/?status=missed").context["counts"] == {"succeeded": 1, "failed": 2, "missed": 0}


def test_runs_are_found_by_their_error_and_staff_filter_them_by_owner(
    web: Client, staff: Client, owner: User, stranger: User
):
    mine = ExecutionFactory(job=JobFactory(owner=owner), status="failed", error="Disk full")
    foreign = ExecutionFactory(job=JobFactory(owner=stranger), status="failed", error="Disk full")

    def found(client: Client, **asked: str) -> set[int]:
        return {run.pk for run in client.get("/runs/", asked).context["listed"].rows}

    assert found(web, q="disk") == {mine.pk}
    assert found(staff, q="disk") == {mine.pk, foreign.pk}
    assert found(staff, owner=stranger.username) == {foreign.pk}
    assert found(web, owner=stranger.username) == set()


def test_page_of_a_failed_run_compares_it_with_the_last_success(web: Client, job: Job):
    now = clock.now()
    runs = [
        ExecutionFactory(
            job=job,
            scheduled_for=now - timedelta(hours=hours),
            status=status,
            attempt=1,
            started_at=now - timedelta(hours=hours),
            finished_at=now - timedelta(hours=hours) + timedelta(seconds=took),
            result={"exit_code": code},
        )
        for hours, status, took, code in ((3, "succeeded", 2, 0), (2, "failed", 9, 1), (1, "failed", 9, 1))
    ]
    for run, text in zip(runs, ("start\ndone", "start\nno space left", "start"), strict=True):
        RunOutput.objects.create(
            execution=run, attempt=1, head=text, tail="", position=len(text), updated_at=now
        )

    answer = web.get(f"/runs/{runs[1].pk}/")

    page = html_of(answer)
    assert re.search(r"2 s → 9 s.*0 → 1.*-done\s+\+no space left", page, re.S)
    neighbours = answer.context["neighbours"]
    assert (neighbours.previous, neighbours.following) == (runs[0].pk, runs[2].pk)
    assert '<span id="L2"><a href="#L2" data-n="2" aria-label="Line 2"></a>no space left</span>' in page
