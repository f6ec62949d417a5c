"""First runs that a person confirms: which jobs wait, who may confirm them, and that nothing goes around it."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from schedules import clock, services
from schedules.engine.pauses import end_pauses
from schedules.models import Event, Execution, Job, Token
from schedules.result import Code, Err, Ok
from schedules.services.files.applying import apply_plan
from schedules.services.files.jobs import read_jobs
from schedules.services.files.plans import make_plan
from schedules.services.jobs import bulk
from schedules.services.jobs.copying import copy_job
from schedules.services.jobs.proposals import confirm, confirm_many, list_plans
from schedules.services.jobs.undo import latest_events, undo
from schedules.services.people.access import issue_lesser_token
from schedules.services.permissions import Actor
from schedules.services.runs.actions import run_task
from tests.factories import ExecutionFactory, JobFactory, UserFactory, staff_with

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
DAILY = {"trigger_type": "cron", "cron": "0 12 * * *", "timezone": "UTC"}
PROMPT = {"name": "Check", "task": "prompt", "kwargs": {"prompt": "Check the build"}, **DAILY}
PING = {"name": "Ping", "task": "tests.ping", **DAILY}


@pytest.fixture
def person() -> Actor:
    return Actor(UserFactory(), Event.Door.WEB)


@pytest.fixture
def agent(person: Actor) -> Actor:
    return Actor(person.user, Event.Door.MCP, name="laptop", confirm="always")


def propose(agent: Actor, **fields: object) -> Job:
    made = services.schedule(agent, **(PROMPT | fields))
    assert isinstance(made, Ok), made
    return made.value.job


def is_waiting(job: Job) -> bool:
    stored = Job.objects.get(pk=job.pk)
    return (stored.status, stored.next_run_at, stored.proposed_at is not None) == ("paused", None, True)


def code_of(result: object) -> Code | None:
    return result.code if isinstance(result, Err) else None


@pytest.mark.parametrize(
    ("setting", "task", "waits"),
    [
        ("never", "prompt", False),
        ("never", "tests.ping", False),
        ("prompts", "prompt", True),
        ("prompts", "move_jobs", True),
        ("prompts", "tests.ping", False),
        ("always", "prompt", True),
        ("always", "tests.ping", True),
    ],
)
def test_token_says_which_jobs_wait(agent, setting, task, waits):
    kwargs = {"prompt": {"prompt": "Go"}, "move_jobs": {"jobs": [], "at": "9:00"}}.get(task, {})

    job = propose(replace(agent, confirm=setting), task=task, kwargs=kwargs)

    assert is_waiting(job) is waits
    assert (job.proposed_by, job.status) == (("laptop", "paused") if waits else ("", "pending"))


def test_commands_wait_with_prompts(agent, use_commands):
    use_commands(
        '[hello]\ndescription = "Says hello."\nprogram = "/bin/echo"\nallow = ["everyone", "agents"]\n'
    )

    assert is_waiting(propose(replace(agent, confirm="prompts"), task="hello", kwargs={}))


@pytest.mark.parametrize(
    ("door", "options", "may"),
    [
        ("web", {}, True),
        ("admin", {}, True),
        ("terminal", {}, True),
        ("code", {}, True),
        ("api", {"is_program": True}, True),
        ("api", {"is_program": True, "confirm": "always"}, False),
        ("api", {}, False),
        ("mcp", {}, False),
        ("mcp", {"is_program": True}, False),
        ("link", {}, False),
        ("trigger", {}, False),
        ("ping", {}, False),
        ("engine", {}, False),
    ],
)
def test_only_people_and_their_programs_confirm(agent, door, options, may):
    job = propose(agent)

    confirmed = confirm(Actor(agent.user, Event.Door(door), **options), job.public_id)

    assert code_of(confirmed) == (None if may else Code.CONFIRMED_BY_PEOPLE)
    assert is_waiting(job) is not may


def test_jobs_of_others_are_confirmed_only_by_staff_who_may_change_them(agent):
    job = propose(agent)
    stranger = Actor(UserFactory(), Event.Door.WEB)
    viewer = Actor(staff_with("view_job"), Event.Door.WEB)

    assert code_of(confirm(stranger, job.public_id)) == Code.JOB_NOT_FOUND
    assert code_of(confirm(viewer, job.public_id)) == Code.JOB_READ_ONLY
    assert list_plans(stranger, clock.now()) == []
    assert is_waiting(job)
    assert isinstance(confirm(Actor(staff_with("change_job"), Event.Door.WEB), job.public_id), Ok)


def test_confirmed_job_runs_and_what_it_missed_is_recorded_as_skipped(agent, person, time_machine, now):
    job = propose(agent, trigger_type="interval", cron="", every=HOUR)
    time_machine.move_to(now + 3 * HOUR + timedelta(minutes=30))

    assert isinstance(confirm(person, job.public_id), Ok)

    job.refresh_from_db()
    assert (job.status, job.next_run_at, job.proposed_at, job.proposed_by) == (
        "pending",
        now + 4 * HOUR,
        None,
        "",
    )
    row = Execution.objects.get(job=job)
    assert (row.status, row.slots, row.reason) == ("skipped", 3, "Paused: waits for confirmation")
    event = Event.objects.get(verb="confirm")
    assert (event.job_id, event.actor, event.before["proposed_by"]) == (
        job.pk,
        person.user.get_username(),
        "laptop",
    )
    assert code_of(confirm(person, job.public_id)) == Code.JOB_NOT_PROPOSED


def test_one_time_job_is_not_confirmed_after_its_moment(agent, person, time_machine, now):
    job = propose(agent, trigger_type="once", cron="", run_at=now + HOUR)
    time_machine.move_to(now + 2 * HOUR)

    [plan] = list_plans(person, clock.now())

    assert (plan.proposals[0].is_over, plan.proposals[0].next_runs) == (True, [])
    assert code_of(confirm(person, job.public_id)) == Code.JOB_TIME_PASSED
    assert is_waiting(job)
    later = services.edit(person, job.public_id, run_at=now + 3 * HOUR)
    assert isinstance(later, Ok)
    assert is_waiting(job)
    assert isinstance(confirm(person, job.public_id), Ok)
    assert [row.status for row in Execution.objects.filter(job=job)] == ["skipped"]


def test_several_jobs_of_one_agent_are_one_plan(agent, person, now):
    first = propose(agent, attempts=3, timeout=timedelta(minutes=1))
    second = propose(agent, name="Second", trigger_type="once", cron="", run_at=now + HOUR)
    other = propose(replace(agent, name="phone"), task="tests.ping", kwargs={})

    plans = list_plans(person, now)

    assert [(plan.by, [each.job for each in plan.proposals]) for plan in plans] == [
        ("laptop", [first, second]),
        ("phone", [other]),
    ]
    shown = plans[0].proposals[0]
    assert shown.schedule == "Every day at 12:00"
    assert shown.next_runs == [now + 3 * HOUR + timedelta(days=day) for day in range(3)]
    assert shown.limits == "3 attempts of up to 1 minute; waits in the inbox for an agent"
    done = confirm_many(person, [(each.job.public_id, each.job.revision) for each in plans[0].proposals])
    assert ([job.pk for job in done.jobs], done.refused) == ([first.pk, second.pk], [])
    assert [plan.by for plan in list_plans(person, now)] == ["phone"]


def test_plan_names_the_runner_with_its_limits(agent, person, now, use_runners):
    use_runners(
        '[notes]\ndescription = "Reads."\nkind = "command"\nprogram = "/bin/echo"\n'
        'allow = ["everyone", "agents"]\nmax_time = "5m"\nper_day = { runs = 3 }\n'
    )
    propose(agent, kwargs={"prompt": "Go", "runner": "notes"})

    [plan] = list_plans(person, now)

    assert "runner notes: 5 min, 3 runs a day" in plan.proposals[0].limits


def test_plans_cost_the_same_number_of_queries_however_many_there_are(agent, person, now):
    propose(agent)
    with CaptureQueriesContext(connection) as one:
        list_plans(person, now)
    for number in range(5):
        propose(agent, name=f"Job {number}")
    with CaptureQueriesContext(connection) as many:
        list_plans(person, now)

    assert len(many) == len(one)


def test_what_has_changed_since_it_was_shown_is_not_confirmed(agent, person):
    job, kept = propose(agent), propose(agent, name="Kept")
    services.edit(agent, job.public_id, kwargs={"prompt": "Delete everything"})

    done = confirm_many(person, [(job.public_id, job.revision), (kept.public_id, kept.revision)])

    assert [each.pk for each in done.jobs] == [kept.pk]
    assert [(job_id, problem.code) for job_id, problem in done.refused] == [(job.public_id, Code.JOB_CHANGED)]
    assert is_waiting(job)


WAYS_AROUND = {
    "resume": lambda actor, job: services.resume(actor, job.public_id),
    "pause with an end": lambda actor, job: services.pause(actor, job.public_id, until=clock.now() + HOUR),
    "pause again": lambda actor, job: services.pause_active(actor, job.public_id),
    "run": lambda actor, job: services.run_now(actor, job.public_id),
    "resume each": lambda actor, job: bulk.change_each(actor, "resume", [job.public_id])[job.public_id],
    "resume several": lambda actor, job: bulk.change_jobs(actor, "resume", [job.pk]),
    "edit": lambda actor, job: services.edit(actor, job.public_id, cron="* * * * *"),
    "edit what does not ask": lambda actor, job: services.edit(actor, job.public_id, tags=["home"]),
    "cancel and restore": lambda actor, job: (
        services.cancel(actor, job.public_id),
        services.restore(actor, job.public_id),
    ),
    "delete and restore": lambda actor, job: (
        services.delete(actor, job.public_id),
        services.restore(actor, job.public_id),
    ),
    "cancel, delete and restore twice": lambda actor, job: (
        services.cancel(actor, job.public_id),
        services.delete(actor, job.public_id),
        services.restore(actor, job.public_id),
        services.restore(actor, job.public_id),
    ),
    "confirm": lambda actor, job: confirm(actor, job.public_id),
    "undo its creation and bring it back": lambda actor, job: (
        undo(actor, latest_events(actor, "create", [job.public_id])),
        services.restore(actor, job.public_id),
    ),
    "file": lambda actor, job: _apply(
        actor,
        f'jobs:\n  "{job.name}":\n    schedule: "0 12 * * *"\n'
        "    timezone: UTC\n    task: prompt\n    arguments: {prompt: Go}\n    paused: false\n",
    ),
}


def _apply(actor: Actor, text: str) -> object:
    jobs, problems = read_jobs([("jobs.yaml", text)], "UTC", clock.now())
    assert problems == []
    return apply_plan(actor, make_plan(actor, "jobs.yaml", jobs, clock.now()))


@pytest.mark.parametrize(
    ("way", "setting"),
    [*((name, "never") for name in WAYS_AROUND if name != "file"), ("resume", "always"), ("edit", "always")],
)
def test_no_agent_gets_around_the_confirmation(agent, way, setting, time_machine, now):
    job = propose(agent)
    actor = replace(agent, confirm=setting)

    WAYS_AROUND[way](actor, job)

    assert is_waiting(job)
    time_machine.move_to(now + 5 * HOUR)
    end_pauses(clock.now())
    assert is_waiting(job)
    assert not Execution.objects.live().filter(job=job).exists()


def test_database_refuses_to_arm_what_nobody_has_confirmed(agent, now):
    job = propose(agent)

    with pytest.raises(IntegrityError), transaction.atomic():
        Job.objects.filter(pk=job.pk).update(status="pending", next_run_at=now + HOUR)


def test_refusal_says_where_a_person_confirms(agent):
    job = propose(agent)

    refused = services.resume(agent, job.public_id)

    assert code_of(refused) == Code.JOB_UNCONFIRMED
    assert f"/jobs/{job.public_id}/" in refused.hint


def test_task_is_not_run_at_once(agent):
    refused = run_task(agent, {"name": "Ping", "task": "tests.ping"})

    assert code_of(refused) == Code.RUN_NEEDS_CONFIRMATION
    assert not Job.objects.exists()
    assert isinstance(run_task(replace(agent, confirm="prompts"), {"name": "Ping", "task": "tests.ping"}), Ok)


def test_copies_and_many_jobs_at_once_wait_too(agent, person):
    mine = JobFactory(owner=person.user)

    copied = copy_job(agent, mine, {"name": "Copy"})
    several = services.schedule_many(agent, [PING, PROMPT])

    assert is_waiting(copied.value.job)
    assert all(is_waiting(job) for job in several.value)
    mine.refresh_from_db()
    assert mine.status == "pending"


@pytest.mark.parametrize(
    ("changes", "asks"),
    [
        ({"kwargs": {"prompt": "Another"}}, True),
        ({"cron": "0 13 * * *"}, True),
        ({"timezone": "Asia/Tokyo"}, True),
        ({"max_runs": 3}, True),
        ({"task": "tests.ping", "kwargs": {}}, True),
        ({"name": "Another"}, False),
        ({"tags": ["home"]}, False),
        ({"label": "L"}, False),
        ({"attempts": 2}, False),
        ({"kwargs": {"prompt": "Check the build"}}, False),
    ],
    ids=str,
)
def test_edit_of_a_confirmed_job_asks_again_if_it_changes_what_runs_or_when(agent, person, changes, asks):
    job = propose(agent)
    confirm(person, job.public_id)

    assert isinstance(services.edit(agent, job.public_id, **changes), Ok)

    assert is_waiting(job) is asks


def test_edit_by_a_person_does_not_ask_and_does_not_confirm(agent, person):
    waiting, running = propose(agent), JobFactory(owner=person.user)

    services.edit(person, waiting.public_id, cron="0 13 * * *")
    services.edit(person, running.public_id, cron="0 13 * * *")

    assert is_waiting(waiting)
    assert not is_waiting(running)


def test_edit_that_asks_withdraws_the_runs_that_wait(agent, person):
    job = JobFactory(owner=person.user, attempts=3)
    queued = ExecutionFactory(job=job, status="queued", cause="manual", available_at=clock.now())
    retried = ExecutionFactory(job=job, status="queued", attempt=1, available_at=clock.now())

    services.edit(agent, job.public_id, kwargs={"fail": True})

    assert is_waiting(job)
    statuses = dict(Execution.objects.values_list("pk", "status"))
    assert (statuses[queued.pk], statuses[retried.pk]) == ("cancelled", "failed")


def test_edit_that_asks_is_refused_while_a_run_by_hand_could_be_repeated_with_it(agent, person):
    job = JobFactory(owner=person.user, attempts=3)
    ExecutionFactory(job=job, status="running", cause="manual", attempt=1)
    other = ExecutionFactory(job=job, status="queued", cause="trigger", available_at=clock.now())

    refused = services.edit(agent, job.public_id, kwargs={"fail": True})

    assert code_of(refused) == Code.JOB_RUN_UNDER_WAY
    job.refresh_from_db()
    other.refresh_from_db()
    assert (job.status, job.kwargs, other.status) == ("pending", {}, "queued")


def test_end_of_a_pause_does_not_arm_what_an_agent_has_changed_meanwhile(agent, person, time_machine, now):
    job = JobFactory(owner=person.user, paused=True, paused_until=now + HOUR)

    services.edit(agent, job.public_id, kwargs={"fail": True})
    time_machine.move_to(now + 2 * HOUR)
    end_pauses(clock.now())

    assert is_waiting(job)


def test_jobs_that_an_agent_describes_in_a_file_wait(agent, person):
    _ = WAYS_AROUND["file"](agent, Job(name="From a file"))

    job = Job.objects.get()
    assert is_waiting(job)
    again = WAYS_AROUND["file"](agent, job)
    assert code_of(again) == Code.JOB_UNCONFIRMED
    assert is_waiting(job)


def test_confirmation_is_undone(agent, person):
    job = propose(agent)
    confirm(person, job.public_id)

    undone = undo(person, latest_events(person, "confirm", [job.public_id]))

    assert isinstance(undone, Ok)
    assert is_waiting(job)
    job.refresh_from_db()
    assert job.proposed_by == "laptop"
    assert isinstance(confirm(person, job.public_id), Ok)


def test_discarded_job_is_in_the_trash_and_comes_back_as_it_was(agent, person):
    job = propose(agent)

    services.delete(person, job.public_id)
    assert list_plans(person, clock.now()) == []
    undo(person, latest_events(person, "delete", [job.public_id]))

    assert is_waiting(job)
    assert len(list_plans(person, clock.now())) == 1


def test_token_keeps_its_choice_when_it_is_rotated_and_passes_on_no_less(person):
    issued = services.issue_token(person.user, name="laptop", kind="program", confirm="prompts").value

    rotated = services.rotate_token(person.user, issued.token.pk).value.token

    assert rotated.confirm == "prompts"
    options = {"scopes": ["read"], "families": [], "kind": "program", "expires_in": HOUR}
    actor = Actor(person.user, Event.Door.API, is_program=True)
    for choice, is_allowed in (("never", False), ("prompts", True), ("always", True)):
        lesser = issue_lesser_token(actor, rotated, name=f"for {choice}", confirm=choice, **options)
        assert isinstance(lesser, Ok) is is_allowed, choice
    assert set(Token.objects.filter(revoked_at=None).values_list("confirm", flat=True)) == {
        "prompts",
        "always",
    }
