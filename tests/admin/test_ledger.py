from datetime import timedelta

import pytest

from schedules import services
from schedules.models import Cluster, Event, Execution
from tests.admin.conftest import NOW
from tests.admin.pages import page
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory


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

    html = operator_client.get(page(Execution, "change", run.pk)).content.decode()

    assert "Traceback: &lt;boom&gt;" in html
    assert "200" in html
    assert "hush" not in html


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


def test_list_shows_which_clusters_are_alive(operator_client):
    ClusterFactory(host="alive")
    ClusterFactory(host="dead", last_seen_at=NOW - timedelta(hours=1))

    html = operator_client.get(page(Cluster, "changelist")).content.decode()

    assert html.count('alt="True"') == html.count('alt="False"') == 1
