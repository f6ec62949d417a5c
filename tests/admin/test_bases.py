"""Features that all admin pages share."""

import re

import pytest
from django.contrib import admin
from django.urls import reverse

from schedules import services
from schedules.models import Cluster, Event, Execution, Job, Profile, Token
from tests.admin.pages import page
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory, TokenFactory


def test_site_is_called_cronty_and_has_no_sidebar(operator_client):
    response = operator_client.get(reverse("admin:index"))

    assert "Cronty" in response.content.decode()
    assert 'rel="icon" href="/static/schedules/favicon.svg"' in response.content.decode()
    assert admin.site.enable_nav_sidebar is False


def test_models_of_django_q_are_not_registered():
    assert [model for model in admin.site._registry if model._meta.app_label == "django_q"] == []


def test_list_can_be_searched_and_filtered(operator_client, operator):
    ExecutionFactory(job__owner=operator)
    TokenFactory(owner=operator)
    ClusterFactory()
    for model in [Job, Execution, Event, Cluster, Token, Profile]:
        response = operator_client.get(page(model, "changelist"), {"q": "o"})

        assert response.status_code == 200
        assert "errornote" not in response.content.decode()


@pytest.mark.parametrize("model", [Job, Execution, Event, Cluster, Token, Profile])
def test_pages_have_no_script_or_style_of_their_own(operator_client, operator, model):
    """The policy forbids inline script and style, so a page that needs them would be broken."""
    run = ExecutionFactory(job__owner=operator)
    services.pause(services.Actor(operator, Event.Door.WEB), run.job.public_id)
    TokenFactory(owner=operator)
    ClusterFactory()

    for url in (page(model, "changelist"), page(model, "change", model.objects.first().pk)):
        response = operator_client.get(url)
        html = response.content.decode()
        assert "'unsafe-inline'" not in response["Content-Security-Policy"]
        assert not re.search(r"<style|\sstyle=|\son\w+=\"", html)
        assert not re.search(r"<script(?![^>]*(src=|application/json))", html)


@pytest.mark.parametrize("rows", [20])
@pytest.mark.parametrize("model", [Job, Execution, Token])
def test_query_count_of_a_list_does_not_grow_with_the_rows(
    operator_client, django_assert_max_num_queries, model, rows
):
    {Job: JobFactory, Execution: ExecutionFactory, Token: TokenFactory}[model].create_batch(rows)

    with django_assert_max_num_queries(12):
        operator_client.get(page(model, "changelist"))


def test_list_shows_times_with_their_zone(operator_client, operator):
    run = ExecutionFactory(job__owner=operator)
    services.pause(services.Actor(operator, Event.Door.WEB), run.job.public_id)
    ClusterFactory()
    JobFactory(owner=operator)
    for model, columns in [
        (Job, ["next run", "last run"]),
        (Execution, ["scheduled for"]),
        (Event, ["at"]),
        (Cluster, ["started", "last seen", "stopped"]),
    ]:
        shown = operator_client.get(page(model, "changelist")).content.decode().lower()

        assert all(column in shown for column in columns)
        assert re.search(r"\d\d:\d\d utc<", shown)
        assert not re.search(r"\d [ap]\.m\.", shown)
