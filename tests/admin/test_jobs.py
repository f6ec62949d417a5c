import re
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.utils import timezone

from schedules import services
from schedules.admin import JobAdmin
from schedules.models import Event, Execution, Job, counting
from schedules.services.installation.setup import ensure_system_job
from tests.admin.conftest import NOW
from tests.admin.pages import acted, messages_of, page, posted
from tests.factories import ExecutionFactory, JobFactory, staff_with
from tests.services.made_jobs import meanwhile

FILLED_IN = {
    "name": "Backup",
    "task": "tests.ping",
    "tags": "home, nightly",
    "trigger_type": "cron",
    "cron": "0 12 * * *",
    "timezone": "UTC",
    "attempts": "1",
    "backoff": "10s",
    "timeout": "1m",
    "overlap": "skip",
    "catch_up": "once",
    "pause_after_failures": "10",
    "at_most_once": "on",
}


MOMENTS = ("run_at", "anchor_at", "ends_at")


def as_shown(client, job: Job) -> dict[str, str]:
    """Return the data that the unchanged change page of a job would send."""
    form = client.get(page(Job, "change", job.pk)).context["adminform"].form
    values = {}
    with timezone.override("Europe/Berlin"):
        for name in form.fields:
            value = form[name].value()
            widget = form[name].field.widget
            values[name] = "" if value is None else widget.format_value(value) if name in MOMENTS else value
    return values


def test_list_shows_the_state_of_every_job(operator_client):
    running = JobFactory(name="Busy", owner__username="bea", cron="0 9 * * 1-5", timezone="Europe/Berlin")
    ExecutionFactory(job=running, status="running")
    JobFactory(name="Broken", cron="nonsense")

    html = operator_client.get(page(Job, "changelist")).content.decode()

    for words in (
        "Busy",
        "bea",
        "tests.ping",
        '<span class="st run">Running<',
        "(Europe/Berlin)",
        "nonsense (UTC)",
    ):
        assert words in html


@pytest.mark.parametrize(
    ("query", "names"),
    [
        pytest.param({}, {"kept", "webhook"}, id="kept"),
        pytest.param({"trash": "yes"}, {"trashed"}, id="trash"),
        pytest.param({"trash": "all"}, {"kept", "webhook", "trashed"}, id="all"),
        pytest.param({"task": "webhook"}, {"webhook"}, id="task"),
        pytest.param({"state": "paused"}, {"webhook"}, id="state"),
        pytest.param({"state": "late"}, set(), id="other state"),
        pytest.param({"state": "nonsense"}, set(), id="unknown state"),
        pytest.param({"q": "kep"}, {"kept"}, id="search"),
    ],
)
def test_list_is_filtered(operator_client, query, names):
    JobFactory(name="kept")
    JobFactory(name="webhook", task="webhook", paused=True)
    JobFactory(name="trashed", deleted_at=NOW)

    listed = operator_client.get(page(Job, "changelist"), query).context["cl"].queryset

    assert {job.name for job in listed} == names


@pytest.mark.parametrize(
    ("action", "before", "after", "words"),
    [
        pytest.param("pause", {}, {"status": "paused"}, "Paused", id="pause"),
        pytest.param("resume", {"paused": True}, {"status": "pending"}, "Resumed", id="resume"),
        pytest.param("cancel", {}, {"status": "cancelled"}, "Stopped permanently:", id="cancel"),
        pytest.param("delete_selected", {}, {"deleted_at": NOW}, "Moved to the trash", id="delete"),
        pytest.param("run_now", {}, {"status": "pending"}, "Run started:", id="run now"),
    ],
)
def test_action_goes_through_the_services_and_reports(operator_client, action, before, after, words):
    first, second = JobFactory(name="A", **before), JobFactory(name="B", **before)

    response = acted(operator_client, Job, action, first, second, is_sure="yes")

    (message,) = messages_of(response)
    assert message.startswith(words)
    assert {"A", "B"} == set(re.findall(r"\b[AB]\b", message))
    assert Job.objects.filter(**after).count() == 2
    assert set(Event.objects.values_list("actor", "door")) == {("otto", "admin")}
    assert Event.objects.count() == 2


def test_cancel_asks_for_confirmation(operator_client):
    job = JobFactory(name="Precious")

    response = acted(operator_client, Job, "cancel", job)

    job.refresh_from_db()
    assert job.status == "pending"
    assert "Stop these jobs permanently?" in response.content.decode()
    assert "Precious" in response.content.decode()
    assert 'name="is_sure"' in response.content.decode()


def test_cancel_of_all_matching_jobs_confirms_them_in_one_field(operator_client):
    jobs = JobFactory.create_batch(3)

    asked = acted(operator_client, Job, "cancel", jobs[0], select_across="1").content.decode()

    assert asked.count('name="_selected_action"') == 1
    assert 'name="select_across" value="1"' in asked

    acted(operator_client, Job, "cancel", jobs[0], select_across="1", is_sure="yes")

    assert Job.objects.filter(status="cancelled").count() == 3


def test_cancel_of_all_matching_jobs_leaves_those_that_were_not_listed(operator_client):
    jobs = JobFactory.create_batch(3)
    asked = acted(operator_client, Job, "cancel", jobs[0], select_across="1")
    late = JobFactory()

    shown = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', asked.content.decode()))
    posted(operator_client, page(Job, "changelist"), shown)

    assert set(Job.objects.filter(status="pending")) == {late}


def test_action_on_all_of_a_list_too_long_to_count_is_neither_offered_nor_done(operator_client, monkeypatch):
    monkeypatch.setattr(counting, "COUNTED", 2)
    monkeypatch.setattr(JobAdmin, "list_per_page", 1)
    jobs = JobFactory.create_batch(3)

    offered = operator_client.get(page(Job, "changelist")).content.decode()
    refused = acted(operator_client, Job, "pause", jobs[0], select_across="1")
    one = acted(operator_client, Job, "pause", jobs[0])

    assert "0 of 1 selected" in offered
    assert not re.search(r"Select all \d", offered)
    assert messages_of(refused) == ["More than 2 rows are selected. Filter the list first."]
    assert messages_of(one) == [f"Paused: {jobs[0].name}."]
    jobs[2].delete()
    assert "Select all 2 jobs" in operator_client.get(page(Job, "changelist")).content.decode()


def test_action_reports_each_refusal_by_name(operator_client):
    fine, over = JobFactory(name="Fine"), JobFactory(name="Over", ended=True)

    response = acted(operator_client, Job, "pause", fine, over)

    assert sorted(messages_of(response)) == [
        "Over: This job has already finished.",
        "Paused: Fine.",
    ]


def test_job_is_restored_from_the_trash(operator_client):
    job = JobFactory(deleted_at=NOW - timedelta(hours=1))

    posted(
        operator_client,
        page(Job, "changelist") + "?trash=yes",
        {"action": "restore", "_selected_action": [job.pk]},
    )

    job.refresh_from_db()
    assert job.deleted_at is None


def test_delete_page_moves_to_the_trash(operator_client):
    job = ExecutionFactory(job__name="Backup").job

    question = operator_client.get(page(Job, "delete", job.pk)).content.decode()
    posted(operator_client, page(Job, "delete", job.pk), {"post": "yes"})

    assert "can be restored" in question
    job.refresh_from_db()
    assert job.deleted_at == NOW
    assert Execution.objects.filter(job=job).exists()


def test_delete_page_shows_why_nothing_was_deleted(operator_client):
    job = JobFactory()

    with meanwhile('INSERT INTO "django_admin_log"', lambda: Job.objects.update(deleted_at=NOW)):
        response = posted(operator_client, page(Job, "delete", job.pk), {"post": "yes"})

    assert messages_of(response) == ["This job no longer exists."]
    assert not Event.objects.exists()


def test_delete_page_asks_for_the_right_to_view_jobs(client, db):
    job = JobFactory()
    client.force_login(staff_with("delete_job"))

    assert client.post(page(Job, "delete", job.pk), {"post": "yes"}).status_code == 403


def test_history_of_a_job_is_its_events(operator_client, actor):
    job = JobFactory(owner=actor.user)
    services.pause(actor, job.public_id)
    services.pause(actor, JobFactory(owner=actor.user).public_id)

    response = operator_client.get(page(Job, "history", job.pk), follow=True)

    assert [event.job for event in response.context["cl"].result_list] == [job]


def test_history_of_a_job_is_djangos_own_without_the_right_to_view_events(client, db):
    client.force_login(staff_with("view_job"))

    assert client.get(page(Job, "history", JobFactory().pk)).status_code == 200


def test_history_of_a_job_asks_for_the_right_to_view_jobs(client, db):
    client.force_login(staff_with("view_event"))

    assert client.get(page(Job, "history", JobFactory().pk)).status_code == 403


def test_job_in_the_trash_cannot_be_deleted_again(operator_client):
    job = JobFactory(deleted_at=NOW)

    assert operator_client.get(page(Job, "delete", job.pk)).status_code == 403


@pytest.mark.parametrize(
    ("trigger", "next_run_at"),
    [
        pytest.param({}, NOW + timedelta(hours=3), id="cron"),
        pytest.param(
            {"trigger_type": "once", "cron": "", "run_at": "2026-02-05T09:00"},
            datetime(2026, 2, 5, 8, tzinfo=UTC),
            id="once",
        ),
        pytest.param(
            {"trigger_type": "interval", "cron": "", "every": "1h30m"},
            NOW + timedelta(minutes=90),
            id="interval",
        ),
    ],
)
def test_added_job_belongs_to_the_person_who_adds_it(operator_client, operator, trigger, next_run_at):
    response = posted(operator_client, page(Job, "add"), FILLED_IN | trigger)

    job = Job.objects.get()
    assert (job.owner, job.made_by, job.next_run_at) == (operator, "otto", next_run_at)
    assert Event.objects.get().door == "admin"
    assert "was added successfully" in messages_of(response)[0]


def test_add_page_is_prefilled_with_the_zone_of_the_person(operator_client):
    html = operator_client.get(f"{page(Job, 'add')}?task=notify").content.decode()

    assert 'value="Europe/Berlin"' in html
    assert 'value="10s"' in html


def test_add_page_asks_for_the_task_first_and_then_for_its_arguments(operator_client, operator):
    question = operator_client.get(page(Job, "add")).content.decode()
    form = operator_client.get(f"{page(Job, 'add')}?task=notify").context["adminform"].form
    refused = operator_client.post(page(Job, "add"), FILLED_IN | {"task": "notify"})
    filled_in = {"task": "notify", "notify-message": "Tea", "notify-topic": "home", "timezone": "tokyo"}
    posted(operator_client, page(Job, "add"), FILLED_IN | filled_in)

    assert '<a href="?task=notify">' in question
    assert (form["task"].value(), "kwargs" in form.fields) == ("notify", False)
    assert refused.context["adminform"].form.errors == {
        "notify-message": ["Enter a message."],
    }
    job = Job.objects.get()
    assert (job.task, job.kwargs["message"], job.kwargs["topic"]) == ("notify", "Tea", "home")
    assert (job.timezone, job.tags) == ("Asia/Tokyo", ["home", "nightly"])


def test_job_of_a_task_that_is_gone_shows_its_arguments_as_json(operator_client):
    job = JobFactory(task="gone", kwargs={"a": 1})

    form = operator_client.get(page(Job, "change", job.pk)).context["adminform"].form

    assert form["kwargs"].value() == '{"a": 1}'


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        pytest.param({"cron": "0 0 30 2 *"}, "cron", id="by the form"),
        pytest.param(
            {"trigger_type": "once", "cron": "", "run_at": "2026-02-03T08:00:00"},
            "run_at",
            id="by the service",
        ),
        pytest.param({"anchor_at": "2026-03-01T08:00:00"}, "anchor_at", id="stray grid"),
    ],
)
def test_error_is_shown_beside_its_field_and_input_is_kept(operator_client, fields, field):
    response = operator_client.post(page(Job, "add"), FILLED_IN | {"name": "Typed"} | fields)

    form = response.context["adminform"].form
    assert list(form.errors) == [field]
    assert form["name"].value() == "Typed"
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"tests.ping-*": "[1, "}, "tests.ping-*"),
        ({"tests.ping-*": '["x"]'}, "tests.ping-*"),
        ({"task": ""}, "task"),
        ({"trigger_type": "", "cron": ""}, "trigger_type"),
    ],
)
def test_invalid_value_is_reported_once(operator_client, fields, field):
    response = operator_client.post(page(Job, "add"), FILLED_IN | fields)

    errors = response.context["adminform"].form.errors
    assert list(errors) == [field]
    assert len(errors[field]) == 1


def test_error_without_a_field_is_shown_at_the_top(operator_client, settings):
    settings.CRONTY_MAX_ACTIVE_JOBS = 1
    posted(operator_client, page(Job, "add"), FILLED_IN)

    response = operator_client.post(page(Job, "add"), FILLED_IN)

    errors = response.context["adminform"].form.non_field_errors()
    assert errors == ["At most 1 active jobs; stop or delete some first."]


@pytest.mark.parametrize("kind", ["cron", "once", "interval", "paused"])
def test_saving_an_unchanged_page_changes_nothing(operator_client, operator, time_machine, kind):
    time_machine.move_to(NOW + timedelta(microseconds=123456), tick=False)
    job = JobFactory(**({} if kind == "cron" else {kind: True}))

    response = posted(operator_client, page(Job, "change", job.pk), as_shown(operator_client, job))

    assert "was changed successfully" in messages_of(response)[0]
    job.refresh_from_db()
    assert job.revision == 1
    assert not Event.objects.exists()


def test_change_goes_through_the_services(operator_client, stranger):
    job = JobFactory(owner=stranger, next_run_at=NOW + timedelta(minutes=5))

    posted(
        operator_client,
        page(Job, "change", job.pk),
        as_shown(operator_client, job) | {"name": "New", "timeout": "1h30m"},
    )

    job.refresh_from_db()
    assert (job.name, job.timeout, job.owner, job.revision) == ("New", timedelta(minutes=90), stranger, 2)
    event = Event.objects.get()
    assert (event.actor, event.door, event.owner) == ("otto", "admin", stranger)
    assert event.after == {"name": "New", "timeout": "P0DT01H30M00S"}


@pytest.mark.parametrize(
    "trigger",
    [
        pytest.param({"trigger_type": "cron", "cron": "0 12 * * *"}, id="to cron"),
        pytest.param({"trigger_type": "once", "run_at": "2026-02-05T08:00:00"}, id="to once"),
        pytest.param({"trigger_type": "interval", "every": "2h"}, id="to interval"),
    ],
)
@pytest.mark.parametrize("kind", ["cron", "once", "interval"])
def test_trigger_type_of_a_job_can_be_changed(operator_client, kind, trigger):
    job = JobFactory(**({} if kind == "cron" else {kind: True}))
    cleared = {"cron": "", "every": "", "run_at": ""}

    posted(operator_client, page(Job, "change", job.pk), as_shown(operator_client, job) | cleared | trigger)

    job.refresh_from_db()
    job.full_clean()
    assert (job.trigger_type, job.revision) == (trigger["trigger_type"], 2)


def test_changed_interval_keeps_the_rest_of_the_schedule_that_the_page_shows(operator_client):
    anchor = datetime(2026, 3, 1, 8, 0, 0, 123456, tzinfo=UTC)
    job = JobFactory(
        interval=True,
        every=timedelta(days=30),
        calendar_unit="months",
        anchor_at=anchor,
        next_run_at=anchor,
        timezone="Europe/Berlin",
    )

    posted(operator_client, page(Job, "change", job.pk), as_shown(operator_client, job) | {"every": "60d"})

    job.refresh_from_db()
    assert (job.every, job.calendar_unit, job.anchor_at) == (timedelta(days=60), "months", anchor)


def test_changed_argument_keeps_the_others_as_they_are_stored(operator_client):
    kwargs = {"url": "https://example.com/", "body": '{"a": 1}', "headers": None}
    job = JobFactory(task="webhook", args=[], kwargs=kwargs)

    posted(
        operator_client,
        page(Job, "change", job.pk),
        as_shown(operator_client, job) | {"webhook-url": "https://example.com/2"},
    )

    job.refresh_from_db()
    assert job.kwargs == kwargs | {"url": "https://example.com/2"}


def test_job_whose_task_is_not_installed_can_be_renamed(operator_client):
    job = JobFactory(task="tests.gone", args=[1], kwargs={"a": "b"})
    shown = as_shown(operator_client, job) | {"args": "[1]", "kwargs": '{"a": "b"}'}

    posted(operator_client, page(Job, "change", job.pk), shown | {"name": "Renamed"})

    job.refresh_from_db()
    assert (job.name, job.task, job.args, job.kwargs) == ("Renamed", "tests.gone", [1], {"a": "b"})


def test_form_from_before_a_change_of_the_time_zone_is_refused(operator_client, operator):
    job = JobFactory(once=True)
    seen = as_shown(operator_client, job)
    services.update_profile(operator, timezone="America/New_York")

    response = operator_client.post(page(Job, "change", job.pk), seen | {"name": "New"})

    errors = response.context["adminform"].form.non_field_errors()
    assert errors == ["Your time zone has changed since you opened this form: load it again."]
    assert Job.objects.get().run_at == job.run_at
    assert Job.objects.get().name == job.name


def test_change_of_a_job_that_has_ended_meanwhile_is_refused_and_input_is_kept(operator_client):
    job = JobFactory(once=True)
    seen = as_shown(operator_client, job)
    Job.objects.update(status=Job.Status.COMPLETED, next_run_at=None)

    response = operator_client.post(page(Job, "change", job.pk), seen | {"name": "Mine"})

    form = response.context["adminform"].form
    assert form.non_field_errors() == ["This job has already finished."]
    assert form["name"].value() == "Mine"
    assert Job.objects.get().name == job.name


def test_change_based_on_an_old_revision_is_refused(operator_client):
    job = JobFactory(name="Old")
    seen = as_shown(operator_client, job)
    services.edit(services.Actor(job.owner, Event.Door.WEB), job.public_id, name="Theirs")

    response = operator_client.post(page(Job, "change", job.pk), seen | {"name": "Mine"})

    form = response.context["adminform"].form
    assert "Somebody else changed this job meanwhile" in form.non_field_errors()[0]
    assert form["name"].value() == "Mine"
    job.refresh_from_db()
    assert job.name == "Theirs"


def test_list_shows_the_next_run_that_is_not_skipped(operator_client):
    JobFactory(cron="0 0 29 2 *", next_run_at=datetime(2028, 2, 29, tzinfo=UTC), skips="2028-02-29")

    html = operator_client.get(page(Job, "changelist")).content.decode()

    assert "Sun 29 Feb 2032 01:00 CET" in html
    assert "2028" not in html


def test_change_page_shows_a_preview(operator_client):
    job = JobFactory(cron="0 0 29 2 *", next_run_at=datetime(2028, 2, 29, tzinfo=UTC))

    html = operator_client.get(page(Job, "change", job.pk)).content.decode()

    assert "Tue 29 Feb 2028 01:00 CET" in html
    assert "leap years" in html


@pytest.mark.parametrize("fields", [{"ended": True}, {"deleted_at": NOW}], ids=["over", "in the trash"])
def test_read_only_job_is_shown_without_its_secrets(operator_client, fields):
    job = JobFactory(task="webhook", kwargs={"headers": {"Authorization": "hush"}}, **fields)

    response = operator_client.get(page(Job, "change", job.pk))
    html = response.content.decode()

    assert 'name="_save"' not in html
    assert "hush" not in html
    assert "••••••" in html
    assert operator_client.post(page(Job, "change", job.pk), FILLED_IN).status_code == 403


def test_pruning_job_is_read_only_and_shows_its_task(operator_client):
    job = ensure_system_job()

    html = operator_client.get(page(Job, "change", job.pk)).content.decode()

    assert 'name="_save"' not in html
    assert '<div class="readonly">prune_history</div>' in html
    assert operator_client.post(page(Job, "change", job.pk), FILLED_IN).status_code == 403


def test_form_masks_secrets_keeps_them_and_asks_again_for_another_address(operator_client):
    kwargs = {"url": "https://example.com/", "headers": {"Authorization": "hush"}}
    job = JobFactory(task="webhook", kwargs=kwargs)
    seen = as_shown(operator_client, job)

    renamed = operator_client.post(page(Job, "change", job.pk), seen | {"name": "New"})
    seen = as_shown(operator_client, job)
    moved = seen | {"webhook-url": "https://evil.example/"}
    response = operator_client.post(page(Job, "change", job.pk), moved)

    assert "hush" not in str(seen)
    assert renamed.status_code == 302
    errors = response.context["adminform"].form.errors
    assert "Enter Authorization again" in str(errors["webhook-headers"])
    job.refresh_from_db()
    assert (job.name, job.kwargs) == ("New", kwargs)


def test_history_of_the_admin_holds_no_secret(operator_client):
    job = JobFactory(
        task="webhook", kwargs={"url": "https://example.com/", "headers": {"Authorization": "hush"}}
    )
    seen = as_shown(operator_client, job)

    answer = operator_client.post(
        page(Job, "change", job.pk), seen | {"webhook-headers": '{"Authorization": "hush again"}'}
    )

    assert answer.status_code == 302
    job.refresh_from_db()
    assert job.kwargs["headers"] == {"Authorization": "hush again"}
    history = [*LogEntry.objects.values(), *Event.objects.values()]
    assert len(history) >= 2
    assert "hush" not in str(history)
    assert "hush" not in operator_client.get(page(Job, "history", job.pk)).content.decode()


def test_pause_keeps_the_end_of_a_pause(operator_client):
    until = NOW + timedelta(days=2)
    job = JobFactory(paused=True, paused_until=until)

    answer = acted(operator_client, Job, "pause", job)

    assert [text for text in messages_of(answer) if "This job is paused already." in text]
    job.refresh_from_db()
    assert job.paused_until == until


def test_message_names_some_of_many_jobs(operator_client, monkeypatch):
    monkeypatch.setattr("schedules.admin.bases.MAX_NAMED", 2)
    jobs = [JobFactory(name=f"Job {number}") for number in range(3)]

    [message] = messages_of(acted(operator_client, Job, "pause", *jobs))
    refused = messages_of(acted(operator_client, Job, "pause", *jobs))

    assert message.endswith(", and 1 more.")
    assert {job.status for job in Job.objects.all()} == {"paused"}
    assert (len(refused), refused[-1]) == (3, "1 more left unchanged.")
