"""Jobs that run after another one: named by any reference, refused in circles, expected in forecasts, explained."""

from datetime import timedelta

import pytest

from schedules import engine, services
from schedules.models import Event, Execution, Job
from schedules.result import Err
from schedules.services import Actor
from schedules.services.files.applying import apply_plan, export_jobs
from schedules.services.files.jobs import read_jobs
from schedules.services.files.plans import make_plan
from schedules.services.job_list import JobQuery
from schedules.services.jobs.agenda import read_agenda
from schedules.services.jobs.chains import chain_of, conditions_of, upcoming_of
from schedules.services.jobs.forecasts import preview_of, words_of
from schedules.services.jobs.undo import undo
from schedules.when.unplanned import UNKNOWN_START
from tests.factories import ClusterFactory, JobFactory, UserFactory
from tests.services.conftest import NOW

pytestmark = pytest.mark.django_db


@pytest.fixture
def actor():
    return Actor(UserFactory(), Event.Door.WEB)


def make(actor, name, cron, **fields):
    made = services.schedule(
        actor,
        **{"name": name, "task": "tests.ping", "trigger_type": "cron", "cron": cron, "timezone": "UTC"}
        | fields,
    )
    return made if isinstance(made, Err) else made.value.job


def problem(result):
    assert isinstance(result, Err)
    return " ".join(reason for reasons in result.errors.values() for reason in reasons)


def test_other_job_is_found_by_name_number_or_id(actor):
    first = make(actor, "Nightly backup", "0 3 * * *")

    by_name = make(actor, "a", '@after "nightly BACKUP" failed 600')
    by_number = make(actor, "b", f"@after #{first.pk}")
    by_id = make(actor, "c", f"@after {first.public_id} any")

    assert [job.follows_id for job in (by_name, by_number, by_id)] == [first.pk] * 3
    assert by_name.cron == f"@after {first.public_id} failed 600"
    assert (by_name.status, by_name.next_run_at) == ("pending", UNKNOWN_START)
    assert words_of(by_name) == "10 minutes after Nightly backup fails"
    assert preview_of(by_name, NOW).waits_for == "the other job"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"max_runs": 3}, "max_runs"),
        ({"ends_at": NOW + timedelta(days=1)}, "ends_at"),
        ({"task": "heartbeat"}, "cron"),
        # That of a stranger.
        ({"cron": '@after "Secret"'}, "cron"),
    ],
)
def test_what_a_follower_cannot_have_is_refused_by_name(actor, fields, field):
    make(actor, "first", "0 3 * * *")
    JobFactory(name="Secret")

    result = make(actor, "second", **{"cron": '@after "first"'} | fields)

    assert list(result.errors) == [field]


def test_circles_and_long_chains_are_refused(actor):
    jobs = [make(actor, "job 0", "0 3 * * *")]
    for number in range(10):
        jobs.append(make(actor, f"job {number + 1}", f'@after "job {number}"'))
    make(actor, "head", "0 4 * * *")
    circle = FILE.replace("0 3 * * *", "after cleanup ends")
    specs, _ = read_jobs([("jobs.yaml", circle)], "UTC", NOW)

    for name in ("job 0", "job 2"):
        refused = services.edit(actor, jobs[0].public_id, cron=f'@after "{name}"')
        assert problem(refused) == f"{name} runs after this job itself, so the two would start each other."
    assert "At most 10 jobs" in problem(make(actor, "job 11", '@after "job 10"'))
    assert "At most 10 jobs" in problem(services.edit(actor, jobs[0].public_id, cron='@after "head"'))
    jobs[0].refresh_from_db()
    assert (jobs[0].cron, jobs[0].follows_id, jobs[1].follows_id) == ("0 3 * * *", None, jobs[0].pk)
    assert make_plan(actor, "jobs.yaml", specs, NOW).problems


def test_edit_to_another_schedule_and_its_undo_keep_the_link_true(actor):
    first = make(actor, "first", "0 3 * * *")
    second = make(actor, "second", '@after "first"')

    edited = services.edit(actor, second.public_id, cron="0 5 * * *").value
    assert (edited.follows_id, edited.next_run_at < UNKNOWN_START) == (None, True)
    event = Event.objects.filter(job=second, verb="edit").get()
    undone = undo(actor, [event]).value.jobs[0]

    second.refresh_from_db()
    assert (second.cron, second.follows_id) == (f"@after {first.public_id} succeeded 0", first.pk)
    assert undone.next_run_at == UNKNOWN_START


def test_same_job_by_another_reference_is_no_change(actor):
    make(actor, "first", "0 3 * * *")
    second = make(actor, "second", '@after "first"')

    services.edit(actor, second.public_id, cron='@after "FIRST"')

    assert Event.objects.filter(job=second, verb="edit").count() == 0


def test_expected_runs_are_in_the_forecast_of_both(actor):
    first = make(actor, "first", "0 10 * * *")
    second = make(actor, "second", '@after "first" succeeded 600')
    make(actor, "third", '@after "second"')
    Job.objects.filter(pk=first.pk).update(last_duration=timedelta(minutes=5))

    runs = services.upcoming(actor, NOW, hours=24)

    at = NOW.replace(hour=10)
    shift = timedelta(minutes=15)
    assert [(slot, row.name) for slot, row in runs] == [
        (at, "first"),
        (at + shift, "second"),
        (at + shift, "third"),
    ]
    chain = chain_of(actor, Job.objects.get(pk=second.pk), NOW)
    assert (chain.upstream, [link.job.name for link in chain.followers]) == (first, ["third"])
    assert (chain.expected[0], chain.only_if) == (at + shift, "first succeeds")


def test_filtered_agenda_has_followers_of_other_jobs_and_says_on_what_they_depend(actor):
    first = make(actor, "first", "0 10 * * *")
    make(actor, "second", '@after "first" failed 600')
    make(actor, "third", '@after "second" any')
    make(actor, "fourth", '@after "first" any')
    Job.objects.filter(pk=first.pk).update(last_duration=timedelta(minutes=5))

    def listed(**query):
        lines = read_agenda(actor, JobQuery(**query), NOW, until=NOW + timedelta(days=1)).lines
        conditions = conditions_of(line.job for line in lines)
        return {line.job.name: (line.first, conditions.get(line.job.pk)) for line in lines}

    everything = listed()
    at = NOW.replace(hour=10, minute=15)
    assert everything["third"] == (at, "first fails")
    assert everything["fourth"] == (NOW.replace(hour=10, minute=5), None)
    for name in ("first", "second", "third"):
        assert listed(text=name) == {name: everything[name]}
    assert upcoming_of(Job.objects.get(name="third"), NOW, 1)[0][0] == at


def end(job, status="succeeded"):
    cluster = ClusterFactory()
    row = Execution.of(
        job,
        NOW,
        status="running",
        cluster=cluster,
        attempt=1,
        started_at=NOW,
        lease_until=NOW + timedelta(minutes=1),
    )
    row.save()
    engine.settle_runs(cluster.pk, [engine.Outcome(row.pk, 1, job.pk, Execution.Status(status), NOW)])
    return row


def test_why_names_the_run_that_started_it_or_the_end_that_did_not(actor):
    first = make(actor, "first", "0 10 * * *")
    second = make(actor, "second", '@after "first"')

    def why():
        return services.why(actor, second.public_id, None, NOW).value.explanation

    assert why() == "first has not ended yet. This job runs after first succeeds."
    failed = end(first, "failed")
    assert why().startswith(f"first failed (run {failed.pk}, ")
    Execution.objects.all().delete()
    done = end(first)
    assert why() == f"Queued. It was started by the end of run {done.pk} of first."


FILE = """
timezone: UTC
jobs:
  report:
    schedule: 10 minutes after "the backup" fails
    task: tests.ping
  cleanup:
    schedule: after report ends
    task: tests.ping
  the backup:
    name: Nightly
    schedule: 0 3 * * *
    task: tests.ping
"""


def applied(actor, text):
    specs, problems = read_jobs([("jobs.yaml", text)], "UTC", NOW)
    assert problems == []
    plan = make_plan(actor, "jobs.yaml", specs, NOW)
    assert plan.problems == []
    result = apply_plan(actor, plan)
    assert not isinstance(result, Err)
    return plan


def test_file_names_jobs_by_their_keys_in_any_order_and_is_stable(actor):
    applied(actor, FILE)

    jobs = {job.source_key: job for job in Job.objects.all()}
    assert jobs["report"].follows == jobs["the backup"]
    assert jobs["cleanup"].follows == jobs["report"]
    again = applied(actor, FILE)
    assert (again.steps, again.unchanged) == ([], 3)
    written = export_jobs(actor, jobs.values())
    assert 'schedule: 10m after "the backup" fails' in written
    assert applied(actor, written).steps == []


def test_file_may_let_an_old_job_follow_a_new_one(actor):
    applied(actor, FILE.replace("after report ends", "0 5 * * *"))

    applied(
        actor,
        FILE.replace("after report ends", "after fresh succeeds")
        + "  fresh:\n    schedule: 0 1 * * *\n    task: tests.ping\n",
    )

    jobs = {job.source_key: job for job in Job.objects.all()}
    assert jobs["cleanup"].follows == jobs["fresh"]
