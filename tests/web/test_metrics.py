"""Metrics: names, values, and what a reading costs."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from django.db import OperationalError, connection

from schedules import __version__, clock
from schedules.models import Execution
from schedules.services.runs.counters import RunCounters
from schedules.web import metrics
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory

HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "how-to"
DASHBOARD = HOW_TO / "deploy" / "grafana-dashboard.json"


@pytest.fixture(autouse=True)
def fresh_counters(monkeypatch):
    monkeypatch.setattr(metrics, "counters", RunCounters())


def ended(**values) -> Execution:
    return ExecutionFactory(**{"status": "succeeded", "finished_at": clock.now()} | values)


def parsed(text: str) -> tuple[dict[str, str], dict[tuple[str, str], float]]:
    """Return the types of the metrics, and the samples by metric and the rest of their names."""
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    samples = {}
    for name, suffix, labels, value in re.findall(
        r"^(cronty_\w+?)(_bucket|_sum|_count)?(\{.*\})? (\S+)$", text, re.MULTILINE
    ):
        assert suffix == "" or types[name] == "histogram", name
        samples[name, suffix + labels] = float(value)
    return types, samples


def read(client) -> str:
    return str(client.get("/metrics").content.decode())


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("client_address", "token", "sent", "status"),
    [
        ("127.0.0.1", "", "", 200),
        ("::1", "", "", 200),
        ("::ffff:127.0.0.1", "", "", 200),
        ("172.17.0.1", "", "", 403),
        ("2001:db8::1", "", "Bearer ", 403),
        ("", "", "", 403),
        ("172.17.0.1", "tk", "Bearer tk", 200),
        ("172.17.0.1", "tk", "Bearer other", 403),
        ("127.0.0.1", "tk", "", 403),
    ],
)
def test_metrics_are_for_this_machine_or_whoever_has_the_token(
    client, settings, client_address, token, sent, status
):
    settings.CRONTY_METRICS_TOKEN = token

    answer = client.get("/metrics", headers={"Authorization": sent}, REMOTE_ADDR=client_address)

    assert answer.status_code == status


@pytest.mark.django_db
def test_metrics_are_unavailable_while_the_database_is_away(client):
    def refuse(*args):
        raise OperationalError("connection refused")

    with connection.execute_wrapper(refuse):
        answer = client.get("/metrics")

    assert (answer.status_code, answer["Content-Type"], answer["Retry-After"]) == (503, "text/plain", "5")
    assert answer.content == b"The database does not answer just now: try again in a moment.\n"


@pytest.mark.django_db
def test_metric_names_follow_the_conventions_for_their_types(client):
    ClusterFactory()

    types, samples = parsed(read(client))

    assert types
    assert {name for name, _ in samples} <= set(types)
    assert all(name.endswith("_total") == (kind == "counter") for name, kind in types.items())


@pytest.mark.django_db
def test_ended_runs_are_counted_by_task_and_outcome(client):
    started = ExecutionFactory(status="running", task="webhook", finished_at=None)
    read(client)

    Execution.objects.filter(pk=started.pk).update(status="failed", finished_at=clock.now())
    ended(task="notify")
    ended(task="notify")
    ended(task="gone", status="skipped")
    _, samples = parsed(read(client))

    runs = {rest: value for (name, rest), value in samples.items() if name == "cronty_runs_total"}
    assert runs == {
        '{task="notify",outcome="succeeded"}': 2,
        '{task="unknown",outcome="skipped"}': 1,
        '{task="webhook",outcome="failed"}': 1,
    }
    assert parsed(read(client))[1]["cronty_runs_total", '{task="webhook",outcome="failed"}'] == 1


@pytest.mark.django_db
def test_jobs_show_their_last_success_and_duration_by_id(client, time_machine):
    time_machine.move_to(datetime(2027, 3, 1, 12, tzinfo=UTC), tick=False)
    success = clock.now() - timedelta(hours=2)
    values = {"last_success_at": success, "last_duration": timedelta(seconds=1.5), "task": "notify"}
    job = JobFactory(name="Private name", **values)
    stopped = JobFactory(
        status="paused", next_run_at=None, pause_after_failures=3, failure_streak=3, **values
    )
    JobFactory(status="completed", next_run_at=None, **values)
    JobFactory(deleted_at=clock.now(), **values)
    never = JobFactory()

    text = read(client)

    _, samples = parsed(text)
    shown = {
        rest: value
        for (name, rest), value in samples.items()
        if name == "cronty_job_last_success_timestamp_seconds"
    }
    assert shown == {
        f'{{job="{each.public_id}",task="notify"}}': success.timestamp() for each in (job, stopped)
    }
    assert samples["cronty_job_last_duration_seconds", f'{{job="{job.public_id}",task="notify"}}'] == 1.5
    assert never.public_id not in text
    assert "Private name" not in text


@pytest.mark.django_db
def test_lateness_is_a_histogram_of_scheduled_runs(client):
    read(client)
    for seconds in (0.05, 0.3, 0.3, 400):
        ended(lateness=timedelta(seconds=seconds))
    ended(cause="manual", lateness=timedelta(seconds=9))

    types, samples = parsed(read(client))

    name = "cronty_run_lateness_seconds"
    assert types[name] == "histogram"
    assert samples[name, '_bucket{le="0.1"}'] == 1
    assert samples[name, '_bucket{le="0.5"}'] == samples[name, '_bucket{le="300.0"}'] == 3
    assert samples[name, '_bucket{le="+Inf"}'] == samples[name, "_count"] == 4
    assert samples[name, "_sum"] == pytest.approx(400.65)


@pytest.mark.django_db
def test_ages_size_and_version_are_shown(client, time_machine):
    now = clock.now()
    time_machine.move_to(now, tick=False)
    ClusterFactory(host="kettle", pid=12)
    JobFactory(next_run_at=now - timedelta(minutes=3))
    ExecutionFactory(status="queued", available_at=now - timedelta(minutes=5), finished_at=None)

    _, samples = parsed(read(client))

    assert samples["cronty_due_age_seconds", ""] >= 180
    assert samples["cronty_queue_age_seconds", ""] >= 300
    assert samples["cronty_jobs_late", ""] == 1
    assert samples["cronty_cluster_heartbeat_age_seconds", '{cluster="kettle:12"}'] < 60
    assert samples["cronty_database_bytes", ""] >= 0
    assert samples["cronty_info", f'{{version="{__version__}"}}'] == 1


def test_dashboard_asks_only_for_metrics_that_exist(client, db):
    ClusterFactory()
    types, _ = parsed(read(client))
    dashboard = json.loads(DASHBOARD.read_text())

    asked = {
        re.sub(r"_(bucket|sum|count)$", "", name)
        for panel in dashboard["panels"]
        for target in panel.get("targets", [])
        for name in re.findall(r"cronty_\w+", target["expr"])
    }

    assert asked <= set(types)
    assert set(types) - asked <= {"cronty_claimed_executions", "cronty_clusters_blocked"}
    assert dashboard["templating"]["list"][0]["type"] == "datasource"


def test_page_explains_every_metric_and_its_alerts_ask_for_known_ones(client, db):
    ClusterFactory()
    types, _ = parsed(read(client))
    page = (HOW_TO / "monitoring.md").read_text()
    files = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)]

    rules = [rule for file in files for group in file.get("groups", []) for rule in group["rules"]]
    asked = {name for rule in rules for name in re.findall(r"cronty_\w+", rule["expr"])}
    assert asked
    assert asked <= set(types)
    assert [name for name in types if not re.search(rf"`{name}\b", page)] == []
