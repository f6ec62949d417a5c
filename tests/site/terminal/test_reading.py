"""The subcommands jobs, show, next, why and preview."""

from datetime import timedelta

import pytest

from schedules import clock, services
from schedules.models import Incident, Job, Profile
from schedules.services.jobs.addresses import open_trigger
from schedules.when.unplanned import UNKNOWN_START
from tests.factories import ExecutionFactory, JobFactory


@pytest.fixture
def jobs(owner):
    return {
        "Backup": JobFactory(
            owner=owner, name="Backup", tags=["home"], failure_streak=1, recent="SF", last_error="Disk full"
        ),
        "Report": JobFactory(
            owner=owner, name="Report", paused=True, pause_reason="holidays", source="jobs.yaml"
        ),
        "Old": JobFactory(owner=owner, name="Old", deleted_at=clock.now()),
    }


def test_jobs_can_be_filtered(cronty, jobs):
    for options, names in [
        ([], ["Backup", "Report"]),
        (["back"], ["Backup"]),
        (["full disk"], ["Backup"]),
        (["--tag", "HOME"], ["Backup"]),
        (["--trash", "--status", "pending"], ["Old"]),
        (["--trash", "old"], ["Old"]),
        (["--status", "paused", "--source", "jobs.yaml", "report"], ["Report"]),
        (["--status", "paused"], ["Report"]),
        (["--tag", "home"], ["Backup"]),
        (["--task", "notify"], []),
        (["--failing"], ["Backup"]),
        (["--trash"], ["Old"]),
        (["--source", "jobs.yaml"], ["Report"]),
        (["--limit", "1"], ["Backup"]),
    ]:
        assert [job["name"] for job in cronty("jobs", *options, "--json").json] == names


def test_text_that_cannot_be_searched_for_is_refused(cronty, jobs):
    for text in ["x" * 201, "a\x1bb"]:
        for place in ["TEXT", "--tag"]:
            refused = cronty("jobs", *(["--tag"] if place == "--tag" else []), text)

            assert refused.code == 2
            assert f"{place}: Use at most 200 printable characters." in refused.err
            assert refused.out == ""


def test_list_says_that_not_all_jobs_were_searched(cronty, owner, monkeypatch):
    for module in ("schedules.models.counting", "schedules.services.job_list"):
        monkeypatch.setattr(f"{module}.COUNTED", 2)
    JobFactory.create_batch(3, owner=owner, name="One job")

    assert len(cronty("jobs", "job", "--json").json) == 2
    assert "jobs were looked through: use --status to see others." in cronty("jobs", "job").err


def test_unknown_source_is_refused_with_the_nearest(cronty, jobs):
    for command in ["jobs", "export"]:
        refused = cronty(command, "--source", "job.yaml")

        assert refused.code == 3
        assert refused.err == "cronty: No job has the source job.yaml. Did you mean jobs.yaml?\n"
        assert refused.out == ""


def test_output_for_a_pipe_is_neither_coloured_nor_shortened(cronty, owner):
    job = JobFactory(owner=owner, name="A very long name " * 10)

    out = cronty("jobs").out

    assert job.name.strip() in out
    assert "\x1b" not in out


def test_jobs_take_a_fixed_number_of_queries(cronty, owner, django_assert_max_num_queries):
    JobFactory.create_batch(30, owner=owner)

    with django_assert_max_num_queries(4):
        cronty("jobs")


def test_show_masks_secrets(cronty, owner):
    job = JobFactory(
        owner=owner, task="webhook", kwargs={"url": "https://x.example", "headers": {"X-Key": "hunter2"}}
    )

    assert "hunter2" not in cronty("show", str(job.pk)).out
    assert "hunter2" not in cronty("show", str(job.pk), "--json").out


def test_show_speaks_in_words(cronty, owner):
    job = JobFactory(
        owner=owner,
        task="webhook",
        kwargs={"url": "https://x.example", "headers": {"accept": "text/html"}, "body": [1, {"a": None}]},
        backoff=timedelta(seconds=90),
        at_most_once=True,
        tags=["home", "daily"],
        overlap=Job.Overlap.QUEUE,
        skips="2099-12-24",
    )

    shown = cronty("show", str(job.pk)).out

    facts = {line[:22].strip(): line[22:].strip() for line in shown.splitlines() if line[22:]}
    assert facts["headers"] == "accept: text/html"
    assert facts["body"] == '1, {"a": null}'
    assert facts["backoff"] == "1 minute 30 seconds"
    assert (facts["at most once"], facts["overlap"], facts["tags"]) == ("yes", "queue", "home, daily")
    assert (facts["pause after failures"], facts["leaves out"]) == ("10", "2099-12-24")
    for python in ("True", "False", "None", "[", "'", "Overlap", "timedelta", "0:01:30"):
        assert python not in shown, python


def test_show_says_what_starts_a_job_and_what_runs_after_it(cronty, actor, owner):
    job = JobFactory(owner=owner, name="Backup")
    url = open_trigger(actor, job.public_id).value.url
    report = services.schedule(
        actor, name="Report", task="tests.ping", trigger_type="cron", cron='@after "Backup"'
    ).value.job

    text, shown = cronty("show", "Backup").out, cronty("show", "Backup", "--json").json

    assert "open: The address is secret" in text
    assert f"Report (#{report.pk}): " in text
    assert (shown["trigger_address"]["scheme"], shown["runs_after"], shown["ping_url"]) == ("", None, None)
    assert [follower["id"] for follower in shown["followers"]] == [report.public_id]
    assert url.rpartition("/")[2] not in text + str(shown)
    assert cronty("show", "Report", "--json").json["runs_after"] == {"id": job.public_id, "name": "Backup"}


def test_show_has_next_runs_and_last_runs(cronty, owner):
    job = JobFactory(owner=owner, name="Backup")
    run = ExecutionFactory(job=job, owner=owner, status="failed", error="disk full", finished_at=clock.now())

    shown = cronty("show", "Backup", "--json").json

    assert len(shown["next_runs"]) == 5
    assert [(each["run"], each["error"]) for each in shown["runs"]] == [(run.pk, "disk full")]
    assert "disk full" in cronty("show", "Backup").out


def test_next_lists_runs_in_order(cronty, owner):
    now = clock.now()
    JobFactory(owner=owner, name="Later", once=True, run_at=now + timedelta(hours=2))
    sooner = JobFactory(owner=owner, name="Sooner", once=True, run_at=now + timedelta(hours=1))
    after = f"@after {sooner.public_id} failed 0"
    JobFactory(owner=owner, name="Alarm", cron=after, follows=sooner, next_run_at=UNKNOWN_START)

    ended = cronty("next")

    assert (
        ended.out.index("Sooner") < ended.out.index("Alarm (only if Sooner fails)") < ended.out.index("Later")
    )
    assert "No cluster is running" in ended.err
    assert [run["name"] for run in cronty("next", "--json", "--hours", "1.5").json] == ["Sooner", "Alarm"]
    assert len(cronty("next", "Later", "--json").json) == 1


def test_next_says_until_when_quiet_hours_hold_a_message(cronty, owner):
    at = clock.now().replace(hour=12) + timedelta(days=1)
    JobFactory(owner=owner, name="Tea", task="notify", once=True, run_at=at)
    JobFactory(owner=owner, name="Backup", once=True, run_at=at)
    assert {run["held_until"] for run in cronty("next", "--json", "--hours", "48").json} == {None}
    Profile.objects.update(quiet_hours="11:00-14:00", timezone="UTC")

    runs = {run["name"]: run["held_until"] for run in cronty("next", "--json", "--hours", "48").json}

    assert (runs["Tea"][11:16], runs["Backup"]) == ("14:00", None)
    assert cronty("next", "--hours", "48").out.count("(held until 14:00 by quiet hours)") == 1


def test_why_explains_the_nearest_run(cronty, owner):
    job = JobFactory(owner=owner, name="Backup", created_at=clock.now() - timedelta(days=2))
    ExecutionFactory(
        job=job, owner=owner, status="missed", reason="No worker was running.", scheduled_for=clock.now()
    )

    assert "This run was missed. No worker was running." in cronty("why", "Backup").out
    assert cronty("why", "Backup", "--json").json["verdict"] == "missed"
    assert cronty("why", "Backup", "blue moon").code == 2


def test_show_and_why_name_an_incident_that_lasts(cronty, owner):
    job, now = JobFactory(owner=owner, name="Backup"), clock.now()
    Incident.objects.create(
        owner=owner, job=job, kind="failing", subject="job", name="Backup", opened_at=now, due_at=now
    )

    assert "Failing since" in cronty("show", "Backup").out
    assert "An alert waits to be sent." in cronty("show", "Backup", "--json").json["alert"]
    assert "Failing since" in cronty("why", "Backup").out


def test_preview_creates_nothing(cronty, owner):
    shown = cronty(
        "preview", "every weekday at 8:30", "--timezone", "Asia/Tokyo", "--count", "2", "--json"
    ).json

    assert shown["description"] == "Every weekday at 08:30"
    assert [run[10:] for run in shown["next_runs"]] == ["T08:30:00+09:00"] * 2
    assert owner.cronty_jobs.count() == 0
    assert cronty("preview", "every blue moon").code == 2
    assert cronty("preview", "every day at 9:00", "--timezone", "Mars/Base").code == 2
