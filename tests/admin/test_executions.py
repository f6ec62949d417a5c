"""Executions in the admin: shown without secrets, and never changed."""

import pytest

from schedules import engine
from schedules.models import Execution, counting
from schedules.tasks.interface import OutputText
from tests.admin.pages import page
from tests.factories import ExecutionFactory, JobFactory
from tests.web.html import html_of


def test_history_is_read_only(operator_client, operator):
    run = ExecutionFactory(job__owner=operator)

    assert operator_client.get(page(Execution, "add")).status_code == 403
    assert operator_client.get(page(Execution, "delete", run.pk)).status_code == 403
    assert operator_client.post(page(Execution, "change", run.pk), {}).status_code == 403
    assert "delete_selected" not in operator_client.get(page(Execution, "changelist")).content.decode()


def test_execution_shows_its_state_and_traceback_and_hides_its_secrets(operator_client):
    run = ExecutionFactory(
        job__kwargs={"headers": {"X-Api-Key": "hush"}},
        result={"token": "hush", "status": 200},
        status="queued",
        attempt=2,
        traceback="Traceback: <boom>",
    )
    engine.save_output(run.pk, 1, OutputText("Halfway <there>", "", 15))

    html = operator_client.get(page(Execution, "change", run.pk)).content.decode()

    for text in ("Retrying", "Traceback: &lt;boom&gt;", "Halfway &lt;there&gt;", "200"):
        assert text in html
    assert "hush" not in html


def test_long_list_is_counted_only_up_to_a_limit_and_searched_by_the_id_of_a_job(
    operator_client, actor, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(counting, "COUNTED", 3)
    jobs = JobFactory.create_batch(5, owner=actor.user)
    for job in jobs:
        ExecutionFactory(job=job)

    everything = html_of(operator_client.get(page(Execution, "changelist")))
    one = operator_client.get(page(Execution, "changelist"), {"q": jobs[1].public_id})

    assert f"3+ {Execution._meta.verbose_name_plural}" in everything
    assert [row.job for row in one.context["cl"].result_list] == [jobs[1]]
