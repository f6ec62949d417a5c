"""Jobs in the admin: listed, added, changed and deleted through the services."""

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.admin.models import LogEntry

from schedules import services
from schedules.models import Event, Execution, Job
from schedules.services.installation.setup import ensure_system_job
from tests.admin.conftest import NOW
from tests.admin.pages import acted, messages_of, page, posted
from tests.factories import ExecutionFactory, JobFactory, staff_with

FILLED_IN = {
    **{"name": "Backup", "task": "tests.ping", "schedule": "every day at 12:00", "timezone": "UTC"},
    **{"overlap": "skip", "catch_up": "once", "on_closed": "skip"},
}


def as_shown(client, job: Job) -> dict[str, str]:
    """Return the data that the unchanged change page of a job would send."""
    form = client.get(page(Job, "change", job.pk)).context["adminform"].form
    values = {name: form[name].value() for name in form.fields}
    return {name: value for name, value in values.items() if value not in (None, False)}


def errors_of(response) -> dict[str, list[str]]:
    return dict(response.context["adminform"].form.errors)


def test_list_shows_jobs_that_are_not_in_the_trash_and_is_searched_and_filtered(operator_client):
    JobFactory(name="kept", cron="nonsense", owner__username="bea")
    JobFactory(name="other", paused=True)
    JobFactory(name="trashed", deleted_at=NOW)
    for query, names in [
        ({}, {"kept", "other"}),
        ({"status__exact": "paused"}, {"other"}),
        ({"q": "kep"}, {"kept"}),
        ({"q": "bea"}, {"kept"}),
    ]:
        answer = operator_client.get(page(Job, "changelist"), query)

        assert {job.name for job in answer.context["cl"].queryset} == names
    assert "nonsense (UTC)" in operator_client.get(page(Job, "changelist")).content.decode()


@pytest.mark.parametrize(
    ("schedule", "next_run_at"),
    [
        ("0 12 * * *", NOW + timedelta(hours=3)),
        ("5 February 2026 at 8:00", datetime(2026, 2, 5, 8, tzinfo=UTC)),
        ("every 90 minutes", NOW + timedelta(minutes=90)),
    ],
)
def test_added_job_belongs_to_the_person_who_adds_it(operator_client, operator, schedule, next_run_at):
    more = {"tags": "home\nbackup", "timeout": "2 minutes", "timezone": "london"}
    response = posted(operator_client, page(Job, "add"), FILLED_IN | {"schedule": schedule} | more)

    job = Job.objects.get()
    assert (job.owner, job.made_by, job.next_run_at) == (operator, "otto", next_run_at)
    assert (job.tags, job.timeout) == (["home", "backup"], timedelta(minutes=2))
    assert job.timezone == "Europe/London"
    assert Event.objects.get().door == "admin"
    assert "was added successfully" in messages_of(response)[0]


def test_error_is_shown_beside_its_field_and_input_is_kept(operator_client):
    for fields, field in [
        ({"schedule": ""}, "schedule"),
        ({"schedule": "0 0 30 2 *"}, "schedule"),
        ({"schedule": "yesterday at 9:00"}, "schedule"),
        ({"task": "os.system"}, "task"),
        ({"args": "[1, "}, "args"),
        ({"kwargs": '{"colour": 1}'}, "kwargs"),
        ({"kwargs": "[" * 100000}, "kwargs"),
        ({"kwargs": "[1]"}, "kwargs"),
        ({"timezone": "Mars/Base"}, "timezone"),
        ({"attempts": "11"}, "attempts"),
        ({"timeout": "soon"}, "timeout"),
        ({"ends_at": "9999-99-99"}, "ends_at"),
        ({"max_runs": "9" * 40}, "max_runs"),
    ]:
        response = operator_client.post(page(Job, "add"), FILLED_IN | {"name": "Typed"} | fields)

        assert list(errors_of(response)) == [field], fields
        assert response.context["adminform"].form["name"].value() == "Typed"
        assert not Job.objects.exists()


@pytest.mark.parametrize("kind", ["once", "interval", "limited"])
def test_saving_an_unchanged_page_changes_nothing(operator_client, time_machine, kind):
    time_machine.move_to(NOW + timedelta(microseconds=123456), tick=False)
    ends_at = NOW + timedelta(days=9, microseconds=5)
    limited = {"ends_at": ends_at, "max_runs": 3, "spread": timedelta(minutes=5), "tags": ["a"]}
    job = JobFactory(**{"limited": limited, "cron": {}}.get(kind, {kind: True}))

    response = posted(operator_client, page(Job, "change", job.pk), as_shown(operator_client, job))

    assert "was changed successfully" in messages_of(response)[0]
    job.refresh_from_db()
    assert job.revision == 1
    assert not Event.objects.exists()


def test_change_goes_through_the_services(operator_client, stranger):
    job = JobFactory(owner=stranger, next_run_at=NOW + timedelta(minutes=5), max_runs=5)
    changes = {"name": "New", "timeout": "1h30m", "max_runs": "0", "schedule": "every 90 minutes"}

    posted(operator_client, page(Job, "change", job.pk), as_shown(operator_client, job) | changes)

    job.refresh_from_db()
    assert (job.name, job.timeout, job.owner, job.revision) == ("New", timedelta(minutes=90), stranger, 2)
    assert (job.max_runs, job.trigger_type, job.every) == (None, "interval", timedelta(minutes=90))
    event = Event.objects.get()
    assert (event.actor, event.door, event.owner) == ("otto", "admin", stranger)


def test_emptied_policy_is_refused_because_it_has_no_meaning(operator_client):
    job = JobFactory()

    for name in ("attempts", "timeout", "overlap"):
        sent = as_shown(operator_client, job) | {name: ""}
        response = operator_client.post(page(Job, "change", job.pk), sent)

        assert list(errors_of(response)) == [name]


def test_change_based_on_an_old_revision_is_refused(operator_client):
    job = JobFactory(name="Old")
    seen = as_shown(operator_client, job)
    services.edit(services.Actor(job.owner, Event.Door.WEB), job.public_id, name="Theirs")

    response = operator_client.post(page(Job, "change", job.pk), seen | {"name": "Mine"})

    assert "Somebody else changed this job meanwhile" in str(errors_of(response)["__all__"])
    assert response.context["adminform"].form["name"].value() == "Mine"
    job.refresh_from_db()
    assert job.name == "Theirs"


def test_delete_page_and_action_move_to_the_trash(operator_client):
    job, other = ExecutionFactory(job__name="Backup").job, JobFactory()

    question = operator_client.get(page(Job, "delete", job.pk)).content.decode()
    posted(operator_client, page(Job, "delete", job.pk), {"post": "yes"})
    acted(operator_client, Job, "delete_selected", other, post="yes")

    assert "can be restored" in question
    assert set(Job.objects.filter(deleted_at=NOW)) == {job, other}
    assert Execution.objects.filter(job=job).exists()
    assert set(Event.objects.values_list("actor", "door", "verb")) == {("otto", "admin", "delete")}


def test_refused_deletion_deletes_nothing_and_says_why(operator_client):
    job, protected = JobFactory(), ensure_system_job()

    asked = {"post": "yes"}
    response = acted(operator_client, Job, "delete_selected", job, protected, **asked)

    assert str(protected) in response.content.decode()
    assert not Job.objects.exclude(deleted_at=None).exists()


def test_delete_page_asks_for_the_right_to_view_jobs(client, db):
    job = JobFactory()
    client.force_login(staff_with("delete_job"))

    assert client.post(page(Job, "delete", job.pk), {"post": "yes"}).status_code == 403


def test_job_that_is_over_or_of_cronty_is_shown_without_its_secrets_and_not_changed(operator_client):
    over = JobFactory(task="webhook", kwargs={"headers": {"Authorization": "hush"}}, ended=True)
    for job in (over, ensure_system_job()):
        html = operator_client.get(page(Job, "change", job.pk)).content.decode()

        assert 'name="_save"' not in html
        assert "hush" not in html
        assert operator_client.post(page(Job, "change", job.pk), FILLED_IN).status_code == 403
    assert "••••••" in operator_client.get(page(Job, "change", over.pk)).content.decode()


def test_form_masks_secrets_keeps_them_and_asks_again_for_another_address(operator_client):
    kwargs = {"url": "https://example.com/", "headers": {"Authorization": "hush"}}
    job = JobFactory(task="webhook", kwargs=kwargs)
    seen = as_shown(operator_client, job)

    renamed = operator_client.post(page(Job, "change", job.pk), seen | {"name": "New"})
    seen = as_shown(operator_client, job)
    moved = seen | {"kwargs": seen["kwargs"].replace("example.com", "evil.example")}
    response = operator_client.post(page(Job, "change", job.pk), moved)

    assert "hush" not in str(seen)
    assert renamed.status_code == 302
    assert "write it again" in str(errors_of(response))
    job.refresh_from_db()
    assert (job.name, job.kwargs) == ("New", kwargs)


def test_history_of_the_admin_holds_no_secret(operator_client):
    url = "https://example.com/"
    job = JobFactory(task="webhook", kwargs={"url": url, "headers": {"Authorization": "hush"}})
    seen = as_shown(operator_client, job)
    again = '{"url": "https://example.com/", "headers": {"Authorization": "hush again"}}'

    answer = operator_client.post(page(Job, "change", job.pk), seen | {"kwargs": again})

    assert answer.status_code == 302
    job.refresh_from_db()
    assert job.kwargs["headers"] == {"Authorization": "hush again"}
    history = [*LogEntry.objects.values(), *Event.objects.values()]
    assert len(history) >= 2
    assert "hush" not in str(history)
