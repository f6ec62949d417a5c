import re
from datetime import timedelta
from html import unescape

import pytest
from django.contrib.auth.models import Permission

from schedules import engine, services
from schedules.admin import bases
from schedules.models import Cluster, Event, Execution, Incident, Job, counting
from schedules.models.standings import STANDINGS
from schedules.services import Actor
from schedules.tasks.interface import OutputText
from tests.admin.conftest import NOW
from tests.admin.pages import acted, messages_of, page
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory, UserFactory
from tests.web.html import html_of


@pytest.mark.parametrize("model", [Execution, Event, Cluster])
def test_history_is_read_only(operator_client, operator, model):
    run = ExecutionFactory(job__owner=operator)
    services.pause(services.Actor(operator, Event.Door.WEB), run.job.public_id)
    ClusterFactory()
    row = model.objects.first()

    assert operator_client.get(page(model, "add")).status_code == 403
    assert operator_client.get(page(model, "delete", row.pk)).status_code == 403
    assert operator_client.post(page(model, "change", row.pk), {}).status_code == 403
    assert "delete_selected" not in operator_client.get(page(model, "changelist")).content.decode()


def test_execution_shows_its_traceback_and_hides_its_secrets(operator_client):
    run = ExecutionFactory(
        job__kwargs={"headers": {"X-Api-Key": "hush"}},
        result={"token": "hush", "status": 200},
        status="failed",
        traceback="Traceback: <boom>",
    )
    engine.save_output(run.pk, 1, OutputText("Halfway <there>", "", 15))

    html = operator_client.get(page(Execution, "change", run.pk)).content.decode()

    assert "Traceback: &lt;boom&gt;" in html
    assert "Halfway &lt;there&gt;" in html
    assert "200" in html
    assert "hush" not in html


def test_execution_shows_the_positional_arguments_of_its_job(operator_client):
    run = ExecutionFactory(job__task="notify", job__args=["Tea"], job__kwargs={"topic": "home"})

    html = operator_client.get(page(Execution, "change", run.pk)).content.decode()

    assert "&quot;Tea&quot;" in html
    assert "&quot;topic&quot;: &quot;home&quot;" in html


@pytest.mark.parametrize(
    ("run", "shown"),
    [
        ({"status": "succeeded"}, '<span class="st ok">Succeeded</span>'),
        ({"status": "failed"}, '<span class="st fail">Failed</span>'),
        ({"status": "waiting"}, '<span class="st warn">Waiting for an agent</span>'),
        ({"status": "queued", "attempt": 2}, '<span class="st warn">Retrying</span>'),
    ],
)
def test_status_of_an_execution_has_its_word_and_colour(operator_client, run, shown):
    execution = ExecutionFactory(**run)

    for address in (page(Execution, "changelist"), page(Execution, "change", execution.pk)):
        assert shown in operator_client.get(address).content.decode()


def test_execution_of_a_purged_job_is_still_shown(operator_client):
    run = ExecutionFactory(job_name="Gone")
    run.job.delete()

    assert "Gone" in operator_client.get(page(Execution, "change", run.pk)).content.decode()


def test_event_shows_before_and_after(operator_client, actor):
    job = JobFactory(owner=actor.user, name="Old")
    services.edit(actor, job.public_id, name="New")

    html = operator_client.get(page(Event, "change", Event.objects.get().pk)).content.decode()

    assert "&quot;name&quot;: &quot;Old&quot;" in html
    assert "&quot;name&quot;: &quot;New&quot;" in html


@pytest.fixture
def two_at_a_time(monkeypatch):
    monkeypatch.setattr(bases, "WALKED", 2)
    monkeypatch.setattr(counting, "COUNTED", 3)


def found_on(answer) -> list[int]:
    return [row.pk for row in answer.context["cl"].result_list]


@pytest.mark.usefixtures("two_at_a_time")
@pytest.mark.parametrize(
    "asked", [{"cause__exact": "catch_up"}, {"q": "Odd"}, {"task": "tests.ping", "q": "odd"}]
)
def test_filter_looks_through_some_runs_at_a_time(operator_client, asked):
    job = JobFactory(name="Even")
    runs = [
        ExecutionFactory(
            job=job,
            job_name="Odd" if minute == 5 else "Even",
            cause="catch_up" if minute == 5 else "schedule",
            scheduled_for=NOW - timedelta(minutes=minute),
        )
        for minute in range(6)
    ]

    answer, pages = operator_client.get(page(Execution, "changelist"), asked), []
    while answer.context["cl"].older:
        pages.append(found_on(answer))
        assert "among the 2 looked through" in html_of(answer)
        answer = operator_client.get(page(Execution, "changelist") + answer.context["cl"].older_link)

    assert [*pages, found_on(answer)] == [[], [], [runs[5].pk]]


@pytest.mark.usefixtures("two_at_a_time")
def test_another_filter_or_search_starts_at_the_top_and_pages_do_not(operator_client):
    JobFactory.create_batch(5)
    first = operator_client.get(page(Job, "changelist"), {"state": "new"})

    older = operator_client.get(page(Job, "changelist") + first.context["cl"].older_link)

    links = re.findall(r'href="(\?[^"]*skip[^"]*)"', html_of(older))
    assert [unescape(link) for link in links] == [older.context["cl"].older_link]
    assert 'name="skip"' not in html_of(older)
    assert "skip" in older.context["cl"].get_query_string({"p": 2})


@pytest.mark.usefixtures("two_at_a_time")
def test_old_failure_is_found_at_once(operator_client):
    job = JobFactory()
    failed = ExecutionFactory(job=job, status="failed", scheduled_for=NOW - timedelta(days=1))
    for minute in range(4):
        ExecutionFactory(job=job, scheduled_for=NOW - timedelta(minutes=minute))

    answer = operator_client.get(page(Execution, "changelist"), {"status__exact": "failed"})

    assert found_on(answer) == [failed.pk]
    assert not answer.context["cl"].older
    both = operator_client.get(
        f"{page(Execution, 'changelist')}?status__exact=succeeded&status__exact=failed"
    )
    while both.context["cl"].older:
        both = operator_client.get(page(Execution, "changelist") + both.context["cl"].older_link)
    assert failed.pk in found_on(both)


@pytest.mark.usefixtures("two_at_a_time")
@pytest.mark.parametrize("model", [Job, Execution, Event])
def test_search_for_an_id_finds_everything_of_that_job(operator_client, actor, model):
    wanted = JobFactory(owner=actor.user)
    ExecutionFactory(job=wanted)
    services.pause(actor, wanted.public_id)
    for job in JobFactory.create_batch(4, owner=actor.user):
        ExecutionFactory(job=job)
        services.pause(actor, job.public_id)

    answer = operator_client.get(page(model, "changelist"), {"q": wanted.public_id})

    assert len(found_on(answer)) == 1
    assert not answer.context["cl"].older


@pytest.mark.usefixtures("two_at_a_time")
@pytest.mark.parametrize("model", [Job, Execution, Event])
def test_owner_has_a_list_of_their_own_and_long_lists_are_not_counted_to_the_end(
    operator_client, actor, model
):
    for job in JobFactory.create_batch(5):
        ExecutionFactory(job=job)
        services.pause(Actor(job.owner), job.public_id)
    mine = JobFactory(owner=actor.user)
    ExecutionFactory(job=mine)
    services.pause(actor, mine.public_id)

    everything = html_of(operator_client.get(page(model, "changelist")))
    own = operator_client.get(page(model, "changelist"), {"owner": actor.user.pk})

    assert f"3+ {model._meta.verbose_name_plural}" in everything
    assert len(found_on(own)) == 1
    assert found_on(operator_client.get(page(model, "changelist"), {"owner": "0"})) == []


def test_owners_are_offered_as_a_filter_unless_there_are_many(operator_client, monkeypatch):
    run = ExecutionFactory()
    link = f'<a href="?owner={run.owner_id}">{run.owner}</a>'

    assert html_of(operator_client.get(page(Execution, "changelist"))).count(link) == 2
    monkeypatch.setattr(bases, "MAX_OWNERS", 1)
    assert html_of(operator_client.get(page(Execution, "changelist"))).count(link) == 1


def test_list_shows_which_clusters_are_alive(operator_client):
    ClusterFactory(host="alive")
    ClusterFactory(host="dead", last_seen_at=NOW - timedelta(hours=1))

    html = operator_client.get(page(Cluster, "changelist")).content.decode()

    assert html.count('alt="True"') == html.count('alt="False"') == 1


def test_list_of_runs_and_its_filters_use_the_words_of_the_pages(operator_client):
    started = NOW - timedelta(seconds=90)
    ExecutionFactory(cause="catch_up", started_at=started, finished_at=NOW)

    page = html_of(operator_client.get("/admin/schedules/execution/"))

    assert '<td class="field-trigger">Catch-up</td>' in page
    assert ">Catch-up</a>" in page
    assert ">Scheduled</a>" in page
    assert "By trigger" in page
    assert ">1 min 30 s</td>" in page


def test_list_of_jobs_is_filtered_by_the_words_of_its_column(operator_client):
    JobFactory(name="Broken", failure_streak=2, recent="FF", last_run_at=NOW)
    JobFactory(name="Fine", recent="S", last_run_at=NOW)

    every = html_of(operator_client.get("/admin/schedules/job/"))
    failing = operator_client.get("/admin/schedules/job/", {"state": "failing"})

    assert all(f">{word}</a>" in every for word in STANDINGS.values())
    assert [job.name for job in failing.context["cl"].result_list] == ["Broken"]


def test_filter_names_statuses_in_the_words_of_the_column(operator_client):
    page = html_of(operator_client.get("/admin/schedules/execution/"))

    assert ">Waiting for an agent</a>" in page
    assert ">Starting</a>" in page
    assert ">Claimed</a>" not in page


@pytest.fixture
def incident(db):
    owner = JobFactory().owner
    message = {"at": NOW.isoformat(), "title": "A job failed", "text": "Backup: no", "place": "topic t"}
    return Incident.objects.create(
        owner=owner, kind="failing", subject="job", name="Backup", opened_at=NOW, due_at=NOW, sent=[message]
    )


def test_incident_shows_its_messages_and_is_snoozed_for_a_day(operator_client, operator, incident):
    assert "A job failed" in html_of(operator_client.get(page(Incident, "change", incident.pk)))

    answer = acted(operator_client, Incident, "snooze", incident)

    assert messages_of(answer) == ["Snoozed: Backup."]
    incident.refresh_from_db()
    assert incident.snoozed_until == NOW + timedelta(days=1)
    assert incident.snoozed_by == operator.get_username()


def test_incident_that_is_over_or_of_somebody_with_more_rights_is_not_snoozed(client, incident):
    staff = UserFactory(is_staff=True)
    client.force_login(staff)
    for name in ("view_incident", "change_incident"):
        staff.user_permissions.add(Permission.objects.get(codename=name))
    type(incident.owner).objects.filter(pk=incident.owner.pk).update(is_superuser=True)

    answer = acted(client, Incident, "snooze", incident)

    assert messages_of(answer) == ["Backup: You can't do this for a user with more rights than you."]
    type(incident.owner).objects.filter(pk=incident.owner.pk).update(is_superuser=False)
    Incident.objects.update(ended_at=NOW)
    acted(client, Incident, "snooze", incident)
    incident.refresh_from_db()
    assert incident.snoozed_until is None


def test_staff_who_may_only_look_are_offered_no_snooze(client, incident):
    staff = UserFactory(is_staff=True)
    staff.user_permissions.add(Permission.objects.get(codename="view_incident"))
    client.force_login(staff)

    acted(client, Incident, "snooze", incident)

    incident.refresh_from_db()
    assert incident.snoozed_until is None
