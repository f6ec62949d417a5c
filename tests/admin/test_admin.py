"""The operator's back office: complete, and never around the services."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission
from django.urls import reverse

from schedules import services
from schedules.models import Cluster, Event, Execution, Job, Profile, Token
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory, TokenFactory, UserFactory

NOW = datetime(2026, 2, 4, 9, 0, tzinfo=UTC)
FILLED_IN = {
    "name": "Backup",
    "task": "tests.ping",
    "args": "[]",
    "kwargs": "{}",
    "tags": "[]",
    "trigger_type": "cron",
    "cron": "0 12 * * *",
    "timezone": "UTC",
    "attempts": "1",
    "backoff": "10s",
    "timeout": "1m",
    "overlap": "skip",
    "catch_up": "once",
    "pause_after_failures": "10",
}
MOMENTS = ("run_at", "anchor_at", "ends_at")


@pytest.fixture(autouse=True)
def now(time_machine) -> datetime:
    time_machine.move_to(NOW, tick=False)
    return NOW


@pytest.fixture
def office(client, operator):
    """A browser in which the operator is logged in."""
    client.force_login(operator)
    return client


def page(model, name: str, *args) -> str:
    return reverse(f"admin:schedules_{model.__name__.lower()}_{name}", args=args)


def posted(client, url: str, data=None):
    """Send a form and follow to the page that comes after it."""
    return client.post(url, data or {}, follow=True)


def acted(client, model, action: str, *rows, **more):
    chosen = {"action": action, "_selected_action": [row.pk for row in rows]}
    return posted(client, page(model, "changelist"), chosen | more)


def messages_of(response) -> list[str]:
    return [str(message) for message in response.context["messages"]]


def as_shown(client, job: Job) -> dict[str, str]:
    """What the change page of a job would send back, untouched."""
    form = client.get(page(Job, "change", job.pk)).context["adminform"].form
    values = {}
    for name in form.fields:
        value = form[name].value()
        if name in MOMENTS:
            day, time = form[name].field.widget.decompress(value)
            values |= {f"{name}_0": day or "", f"{name}_1": time or ""}
        else:
            values[name] = "" if value is None else value
    return values


# The site


def test_site_is_called_cronty_and_leaves_the_width_to_the_tables(office):
    response = office.get(reverse("admin:index"))

    assert "Cronty" in response.content.decode()
    assert 'rel="icon" href="/static/schedules/favicon.svg"' in response.content.decode()
    assert admin.site.enable_nav_sidebar is False


def test_engines_own_tables_are_not_registered():
    assert [model for model in admin.site._registry if model._meta.app_label == "django_q"] == []


@pytest.mark.parametrize("model", [Job, Execution, Event, Cluster, Token, Profile])
def test_pages_open_to_staff_only(client, owner, model):
    client.force_login(owner)

    assert client.get(page(model, "changelist")).status_code == 302


@pytest.mark.parametrize("model", [Job, Execution, Event, Cluster, Token, Profile])
def test_list_can_be_searched_and_filtered(office, operator, model):
    ExecutionFactory(job__owner=operator)
    TokenFactory(owner=operator)
    ClusterFactory()
    office.post(page(Job, "changelist"), {"action": "run_now", "_selected_action": [Job.objects.get().pk]})

    response = office.get(page(model, "changelist"), {"q": "host" if model is Cluster else "o"})

    assert response.status_code == 200
    assert "errornote" not in response.content.decode()


@pytest.mark.parametrize("model", [Job, Execution, Event, Cluster, Token, Profile])
def test_pages_have_no_script_or_style_of_their_own(office, operator, model):
    """The policy forbids inline script and style, so a page that needs them would be broken."""
    run = ExecutionFactory(job__owner=operator)
    services.pause(services.Actor(operator, Event.Door.WEB), run.job.public_id)
    TokenFactory(owner=operator)
    ClusterFactory()

    for url in (page(model, "changelist"), page(model, "change", model.objects.first().pk)):
        response = office.get(url)
        html = response.content.decode()
        assert "'unsafe-inline'" not in response["Content-Security-Policy"]
        assert not re.search(r"<style|\sstyle=|\son\w+=\"", html)
        assert not re.search(r"<script(?![^>]*(src=|application/json))", html)


@pytest.mark.parametrize("rows", [1, 20])
@pytest.mark.parametrize("model", [Job, Execution, Token])
def test_list_takes_the_same_queries_for_any_number_of_rows(
    office, django_assert_max_num_queries, model, rows
):
    {Job: JobFactory, Execution: ExecutionFactory, Token: TokenFactory}[model].create_batch(rows)

    with django_assert_max_num_queries(12):
        office.get(page(model, "changelist"))


# Jobs: the list


@pytest.mark.parametrize(
    ("model", "columns"),
    [
        (Job, ["next run (UTC)", "last run (UTC)"]),
        (Execution, ["scheduled for (UTC)"]),
        (Event, ["at (UTC)"]),
        (Cluster, ["started (UTC)", "last seen (UTC)", "stopped (UTC)"]),
    ],
)
def test_list_says_whose_clock_its_moments_are_on(office, operator, model, columns):
    run = ExecutionFactory(job__owner=operator)
    services.pause(services.Actor(operator, Event.Door.WEB), run.job.public_id)
    ClusterFactory()

    shown = office.get(page(model, "changelist")).content.decode().lower()

    assert all(column.lower() in shown for column in columns)


def test_list_says_how_every_job_stands(office):
    running = JobFactory(name="Busy", owner__username="bea", cron="0 9 * * 1-5", timezone="Europe/Berlin")
    ExecutionFactory(job=running, status="running")
    JobFactory(name="Broken", cron="nonsense")

    html = office.get(page(Job, "changelist")).content.decode()

    for words in ("Busy", "bea", "tests.ping", "running", "(Europe/Berlin)", "nonsense (UTC)"):
        assert words in html


@pytest.mark.parametrize(
    ("query", "names"),
    [
        pytest.param({}, {"kept", "webhook"}, id="kept"),
        pytest.param({"trash": "yes"}, {"trashed"}, id="trash"),
        pytest.param({"trash": "all"}, {"kept", "webhook", "trashed"}, id="all"),
        pytest.param({"task": "webhook"}, {"webhook"}, id="task"),
        pytest.param({"status__exact": "paused"}, {"webhook"}, id="status"),
        pytest.param({"q": "kep"}, {"kept"}, id="search"),
    ],
)
def test_list_is_filtered(office, query, names):
    JobFactory(name="kept")
    JobFactory(name="webhook", task="webhook", paused=True)
    JobFactory(name="trashed", deleted_at=NOW)

    listed = office.get(page(Job, "changelist"), query).context["cl"].queryset

    assert {job.name for job in listed} == names


# Jobs: the actions


@pytest.mark.parametrize(
    ("action", "before", "after", "words"),
    [
        pytest.param("pause", {}, {"status": "paused"}, "Paused", id="pause"),
        pytest.param("resume", {"paused": True}, {"status": "pending"}, "Resumed", id="resume"),
        pytest.param("cancel", {}, {"status": "cancelled"}, "Cancelled", id="cancel"),
        pytest.param("delete_selected", {}, {"deleted_at": NOW}, "Moved to the trash", id="delete"),
        pytest.param("run_now", {}, {"status": "pending"}, "Queued a run of", id="run now"),
    ],
)
def test_action_goes_through_the_services_and_reports(office, action, before, after, words):
    first, second = JobFactory(name="A", **before), JobFactory(name="B", **before)

    response = acted(office, Job, action, first, second, is_sure="yes")

    (message,) = messages_of(response)
    assert message.startswith(words)
    assert {"A", "B"} == set(re.findall(r"\b[AB]\b", message))
    assert Job.objects.filter(**after).count() == 2
    assert set(Event.objects.values_list("actor", "door")) == {("otto", "admin")}
    assert Event.objects.count() == 2


def test_cancel_asks_first(office):
    job = JobFactory(name="Precious")

    response = acted(office, Job, "cancel", job)

    job.refresh_from_db()
    assert job.status == "pending"
    assert "Cancel these jobs?" in response.content.decode()
    assert "Precious" in response.content.decode()
    assert 'name="is_sure"' in response.content.decode()


def test_cancel_of_all_that_match_asks_for_all_of_them_in_one_field(office):
    jobs = JobFactory.create_batch(3)

    asked = acted(office, Job, "cancel", jobs[0], select_across="1").content.decode()

    assert asked.count('name="_selected_action"') == 1
    assert 'name="select_across" value="1"' in asked

    acted(office, Job, "cancel", jobs[0], select_across="1", is_sure="yes")

    assert Job.objects.filter(status="cancelled").count() == 3


def test_action_reports_each_refusal_by_name(office):
    fine, over = JobFactory(name="Fine"), JobFactory(name="Over", ended=True)

    response = acted(office, Job, "pause", fine, over)

    assert sorted(messages_of(response)) == [
        f"Over: Job already completed: {over.public_id}",
        "Paused Fine.",
    ]


def test_job_is_restored_from_the_trash(office):
    job = JobFactory(deleted_at=NOW - timedelta(hours=1))

    posted(
        office,
        page(Job, "changelist") + "?trash=yes",
        {"action": "restore", "_selected_action": [job.pk]},
    )

    job.refresh_from_db()
    assert job.deleted_at is None


def test_delete_page_moves_to_the_trash(office):
    job = ExecutionFactory(job__name="Backup").job

    question = office.get(page(Job, "delete", job.pk)).content.decode()
    posted(office, page(Job, "delete", job.pk), {"post": "yes"})

    assert "can be restored" in question
    job.refresh_from_db()
    assert job.deleted_at == NOW
    assert Execution.objects.filter(job=job).exists()


def test_job_in_the_trash_cannot_be_deleted_again(office):
    job = JobFactory(deleted_at=NOW)

    assert office.get(page(Job, "delete", job.pk)).status_code == 403


# Jobs: the forms


@pytest.mark.parametrize(
    ("trigger", "next_run_at"),
    [
        pytest.param({}, NOW + timedelta(hours=3), id="cron"),
        pytest.param(
            {"trigger_type": "once", "cron": "", "run_at_0": "2026-02-05", "run_at_1": "08:00:00"},
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
def test_job_of_any_kind_is_made_for_oneself(office, operator, trigger, next_run_at):
    response = posted(office, page(Job, "add"), FILLED_IN | trigger)

    job = Job.objects.get()
    assert (job.owner, job.made_by, job.next_run_at) == (operator, "otto", next_run_at)
    assert Event.objects.get().door == "admin"
    assert "was added successfully" in messages_of(response)[0]


def test_add_page_starts_in_the_persons_own_zone(office):
    html = office.get(page(Job, "add")).content.decode()

    assert 'value="Europe/Berlin"' in html
    assert 'value="10s"' in html


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        pytest.param({"cron": "0 0 30 2 *"}, "cron", id="by the form"),
        pytest.param(
            {"trigger_type": "once", "cron": "", "run_at_0": "2026-02-03", "run_at_1": "08:00:00"},
            "run_at",
            id="by the service",
        ),
        pytest.param({"anchor_at_0": "2026-03-01", "anchor_at_1": "08:00:00"}, "anchor_at", id="stray grid"),
    ],
)
def test_refusal_stands_beside_its_field_and_what_was_typed_stays(office, fields, field):
    response = office.post(page(Job, "add"), FILLED_IN | {"name": "Typed"} | fields)

    form = response.context["adminform"].form
    assert list(form.errors) == [field]
    assert form["name"].value() == "Typed"
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"task": "notify", "kwargs": '{"topic": '}, "kwargs"),
        ({"task": "notify", "args": "[1, "}, "args"),
        ({"task": ""}, "task"),
        ({"trigger_type": "", "cron": ""}, "trigger_type"),
    ],
)
def test_what_cannot_be_read_is_said_once(office, fields, field):
    response = office.post(page(Job, "add"), FILLED_IN | fields)

    errors = response.context["adminform"].form.errors
    assert list(errors) == [field]
    assert len(errors[field]) == 1


def test_refusal_that_names_no_field_stands_on_top(office, settings):
    settings.CRONTY_MAX_ACTIVE_JOBS = 1
    posted(office, page(Job, "add"), FILLED_IN)

    response = office.post(page(Job, "add"), FILLED_IN)

    assert "at most 1 active jobs" in response.context["adminform"].form.non_field_errors()[0]


@pytest.mark.parametrize("kind", ["cron", "once", "interval", "paused"])
def test_untouched_page_changes_nothing(office, operator, time_machine, kind):
    time_machine.move_to(NOW + timedelta(microseconds=123456), tick=False)
    job = JobFactory(**({} if kind == "cron" else {kind: True}))

    response = posted(office, page(Job, "change", job.pk), as_shown(office, job))

    assert "was changed successfully" in messages_of(response)[0]
    job.refresh_from_db()
    assert job.revision == 1
    assert not Event.objects.exists()


def test_change_goes_through_the_services(office, stranger):
    job = JobFactory(owner=stranger, next_run_at=NOW + timedelta(minutes=5))

    posted(office, page(Job, "change", job.pk), as_shown(office, job) | {"name": "New", "timeout": "1h30m"})

    job.refresh_from_db()
    assert (job.name, job.timeout, job.owner, job.revision) == ("New", timedelta(minutes=90), stranger, 2)
    event = Event.objects.get()
    assert (event.actor, event.door, event.owner) == ("otto", "admin", stranger)
    assert event.after == {"name": "New", "timeout": "P0DT01H30M00S"}


@pytest.mark.parametrize(
    "trigger",
    [
        pytest.param({"trigger_type": "cron", "cron": "0 12 * * *"}, id="to cron"),
        pytest.param(
            {"trigger_type": "once", "run_at_0": "2026-02-05", "run_at_1": "08:00:00"}, id="to once"
        ),
        pytest.param({"trigger_type": "interval", "every": "2h"}, id="to interval"),
    ],
)
@pytest.mark.parametrize("kind", ["cron", "once", "interval"])
def test_one_kind_of_job_becomes_another(office, kind, trigger):
    job = JobFactory(**({} if kind == "cron" else {kind: True}))
    cleared = {"cron": "", "every": "", "run_at_0": "", "run_at_1": ""}

    posted(office, page(Job, "change", job.pk), as_shown(office, job) | cleared | trigger)

    job.refresh_from_db()
    job.full_clean()
    assert (job.trigger_type, job.revision) == (trigger["trigger_type"], 2)


def test_change_of_what_somebody_else_changed_meanwhile_is_refused(office):
    job = JobFactory(name="Old")
    seen = as_shown(office, job)
    services.edit(services.Actor(job.owner, Event.Door.WEB), job.public_id, name="Theirs")

    response = office.post(page(Job, "change", job.pk), seen | {"name": "Mine"})

    form = response.context["adminform"].form
    assert "Somebody else changed this job meanwhile" in form.non_field_errors()[0]
    assert form["name"].value() == "Mine"
    job.refresh_from_db()
    assert job.name == "Theirs"


def test_change_page_shows_a_preview(office):
    job = JobFactory(cron="0 0 29 2 *", next_run_at=datetime(2028, 2, 29, tzinfo=UTC))

    html = office.get(page(Job, "change", job.pk)).content.decode()

    assert "Tue 2028-02-29 00:00:00 UTC" in html
    assert "leap years" in html


@pytest.mark.parametrize("fields", [{"ended": True}, {"deleted_at": NOW}], ids=["over", "in the trash"])
def test_job_that_cannot_be_changed_can_be_looked_at_without_its_secrets(office, fields):
    job = JobFactory(task="webhook", kwargs={"headers": {"Authorization": "hush"}}, **fields)

    response = office.get(page(Job, "change", job.pk))
    html = response.content.decode()

    assert 'name="_save"' not in html
    assert "hush" not in html
    assert "••••••" in html
    assert office.post(page(Job, "change", job.pk), FILLED_IN).status_code == 403


# What happened


@pytest.mark.parametrize("model", [Execution, Event, Cluster])
def test_what_happened_cannot_be_changed(office, operator, model):
    run = ExecutionFactory(job__owner=operator)
    services.pause(services.Actor(operator, Event.Door.WEB), run.job.public_id)
    ClusterFactory()
    row = model.objects.first()

    assert office.get(page(model, "add")).status_code == 403
    assert office.get(page(model, "delete", row.pk)).status_code == 403
    assert office.post(page(model, "change", row.pk), {}).status_code == 403
    assert "delete_selected" not in office.get(page(model, "changelist")).content.decode()


def test_execution_shows_its_traceback_and_hides_its_secrets(office):
    run = ExecutionFactory(
        job__kwargs={"headers": {"X-Api-Key": "hush"}},
        result={"token": "hush", "status": 200},
        status="failed",
        traceback="Traceback: <boom>",
    )

    html = office.get(page(Execution, "change", run.pk)).content.decode()

    assert "Traceback: &lt;boom&gt;" in html
    assert "200" in html
    assert "hush" not in html


def test_execution_of_a_job_that_is_gone_is_still_shown(office):
    run = ExecutionFactory(job_name="Gone")
    run.job.delete()

    assert "Gone" in office.get(page(Execution, "change", run.pk)).content.decode()


def test_event_shows_before_and_after(office, actor):
    job = JobFactory(owner=actor.user, name="Old")
    services.edit(actor, job.public_id, name="New")

    html = office.get(page(Event, "change", Event.objects.get().pk)).content.decode()

    assert "&quot;name&quot;: &quot;Old&quot;" in html
    assert "&quot;name&quot;: &quot;New&quot;" in html


def test_dead_worker_is_seen_to_be_dead(office):
    ClusterFactory(host="alive")
    ClusterFactory(host="dead", last_seen_at=NOW - timedelta(hours=1))

    html = office.get(page(Cluster, "changelist")).content.decode()

    assert html.count('alt="True"') == html.count('alt="False"') == 1


# Tokens


TOKEN = {"name": "laptop", "kind": "conversation", "scopes": ["read", "write"], "expires_in": "365d"}


def secret_in(response) -> str:
    (found,) = re.findall(r"cronty_[0-9a-f]{8}_[\w-]{32}", response.content.decode())
    return str(found)


def test_token_is_issued_and_its_secret_shown_once(office, operator, owner):
    response = posted(office, page(Token, "add"), TOKEN | {"owner": owner.pk})

    token = services.verify_token(secret_in(response))
    assert token is not None
    assert (token.owner, token.scopes, token.expires_at) == (
        owner,
        ["read", "write"],
        NOW + timedelta(days=365),
    )
    event = Event.objects.get()
    assert (event.verb, event.actor, event.door) == ("issue token", "otto", "admin")
    for url in (page(Token, "changelist"), page(Token, "change", token.pk)):
        html = office.get(url).content.decode()
        assert token.prefix in html
        assert "cronty_" not in html
        assert token.digest not in html


def test_token_page_starts_with_oneself_and_both_scopes(office, operator):
    form = office.get(page(Token, "add")).context["adminform"].form

    assert form["owner"].value() == operator.pk
    assert tuple(form["scopes"].value()) == ("read", "write")


def test_refused_token_is_not_issued(office, operator):
    TokenFactory(owner=operator, name="laptop")

    response = office.post(page(Token, "add"), TOKEN | {"owner": operator.pk})

    assert "name" in response.context["adminform"].form.errors
    assert Token.objects.count() == 1


def test_staff_make_tokens_for_themselves_only(client, owner):
    clerk = UserFactory(username="clerk", is_staff=True)
    clerk.user_permissions.set(Permission.objects.filter(content_type__model="token"))
    client.force_login(clerk)

    response = posted(client, page(Token, "add"), TOKEN | {"owner": owner.pk})

    token = services.verify_token(secret_in(response))
    assert token is not None
    assert token.owner == clerk


def test_token_is_revoked_once_and_neither_changed_nor_deleted(office, owner):
    token = TokenFactory(owner=owner, name="laptop")

    first = messages_of(acted(office, Token, "revoke", token))
    second = messages_of(acted(office, Token, "revoke", token))

    token.refresh_from_db()
    assert token.revoked_at == NOW
    assert first == ["Revoked laptop."]
    assert second == ["laptop: This token was revoked before."]
    assert office.post(page(Token, "change", token.pk), TOKEN).status_code == 403
    assert office.get(page(Token, "delete", token.pk)).status_code == 403


# Profiles


def test_profile_is_changed_through_the_services(office, owner):
    response = posted(
        office,
        page(Profile, "change", owner.cronty_profile.pk),
        {"timezone": "Asia/Tokyo", "failure_topic": "alarm"},
    )

    assert "was changed successfully" in messages_of(response)[0]
    owner.cronty_profile.refresh_from_db()
    assert (owner.cronty_profile.timezone, owner.cronty_profile.failure_topic) == ("Asia/Tokyo", "alarm")


def test_nonsense_in_a_profile_stands_beside_its_field(office, owner):
    response = office.post(page(Profile, "change", owner.cronty_profile.pk), {"timezone": "Mars/Base"})

    assert list(response.context["adminform"].form.errors) == ["timezone"]


def test_keys_of_a_profile_are_not_shown_and_profiles_come_and_go_with_people(office, owner):
    html = office.get(page(Profile, "change", owner.cronty_profile.pk)).content.decode()

    assert owner.cronty_profile.signing_key not in html
    assert owner.cronty_profile.calendar_key not in html
    assert office.get(page(Profile, "add")).status_code == 403
    assert office.get(page(Profile, "delete", owner.cronty_profile.pk)).status_code == 403
