"""Features that all admin pages share."""

import re

import pytest
from django.contrib import admin
from django.urls import reverse

from schedules.models import Execution, Job, Token
from tests.admin.pages import page
from tests.factories import ExecutionFactory, JobFactory, TokenFactory

FACTORIES = {Job: JobFactory, Execution: ExecutionFactory, Token: TokenFactory}


def test_site_is_called_cronty_and_shows_no_models_of_django_q(operator_client):
    html = operator_client.get(reverse("admin:index")).content.decode()

    assert "Cronty" in html
    assert 'rel="icon" href="/static/schedules/favicon.svg"' in html
    assert admin.site.enable_nav_sidebar is False
    assert [model for model in admin.site._registry if model._meta.app_label == "django_q"] == []


@pytest.mark.parametrize("model", FACTORIES)
def test_pages_are_searched_name_their_zone_and_have_no_script_or_style_of_their_own(operator_client, model):
    """The policy forbids inline script and style, so a page that needs them would be broken."""
    row = FACTORIES[model]()

    for url in (f"{page(model, 'changelist')}?q=o", page(model, "changelist"), page(model, "change", row.pk)):
        response = operator_client.get(url)
        html = response.content.decode()
        assert response.status_code == 200
        assert "errornote" not in html
        assert "'unsafe-inline'" not in response["Content-Security-Policy"]
        assert not re.search(r"<style|\sstyle=|\son\w+=\"", html)
        assert not re.search(r"<script(?![^>]*(src=|application/json))", html)
        assert not re.search(r"\d [ap]\.m\.", html)
    assert re.search(r"\d\d:\d\d UTC<", operator_client.get(page(model, "changelist")).content.decode())


@pytest.mark.parametrize("model", FACTORIES)
def test_query_count_of_a_list_does_not_grow_with_the_rows(
    operator_client, django_assert_max_num_queries, model
):
    FACTORIES[model].create_batch(20)

    with django_assert_max_num_queries(12):
        operator_client.get(page(model, "changelist"))
