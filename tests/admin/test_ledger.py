import pytest

from schedules import engine, services
from schedules.models import Cluster, Event, Execution, Incident, counting
from schedules.tasks.interface import OutputText
from tests.admin.conftest import NOW
from tests.admin.pages import page
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory
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


def test_status_of_an_execution_is_named_as_on_the_pages(operator_client):
    for run, shown in [
        ({"status": "succeeded"}, "Succeeded"),
        ({"status": "waiting"}, "Waiting for an agent"),
        ({"status": "queued", "attempt": 2}, "Retrying"),
    ]:
        execution = ExecutionFactory(**run)

        for address in (page(Execution, "changelist"), page(Execution, "change", execution.pk)):
            assert shown in operator_client.get(address).content.decode()


def test_event_shows_before_and_after(operator_client, actor):
    job = JobFactory(owner=actor.user, name="Old")
    services.edit(actor, job.public_id, name="New")

    html = operator_client.get(page(Event, "change", Event.objects.get().pk)).content.decode()

    assert "&quot;name&quot;: &quot;Old&quot;" in html
    assert "&quot;name&quot;: &quot;New&quot;" in html


@pytest.fixture
def incident(db):
    owner = JobFactory().owner
    message = {"at": NOW.isoformat(), "title": "A job failed", "text": "Backup: no", "place": "topic t"}
    return Incident.objects.create(
        owner=owner, kind="failing", subject="job", name="Backup", opened_at=NOW, due_at=NOW, sent=[message]
    )


def test_incident_shows_its_messages(operator_client, incident):
    assert "A job failed" in html_of(operator_client.get(page(Incident, "change", incident.pk)))


@pytest.mark.parametrize("model", [Execution, Event])
def test_long_list_is_counted_only_up_to_a_limit_and_searched_by_the_id_of_a_job(
    operator_client, actor, monkeypatch, model
):
    monkeypatch.setattr(counting, "COUNTED", 3)
    jobs = JobFactory.create_batch(5, owner=actor.user)
    for job in jobs:
        ExecutionFactory(job=job)
        services.pause(actor, job.public_id)

    everything = html_of(operator_client.get(page(model, "changelist")))
    one = operator_client.get(page(model, "changelist"), {"q": jobs[1].public_id})

    assert f"3+ {model._meta.verbose_name_plural}" in everything
    assert [row.job for row in one.context["cl"].result_list] == [jobs[1]]
