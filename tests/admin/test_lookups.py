"""Filters and searches of every admin page: only what a page declares is looked up."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from axes.models import AccessLog
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import connection
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from cronty_site import settings as settings_of_the_site
from cronty_site import urls  # noqa: F401  (replaces the pages for users)
from schedules.admin.bases import DeclaredLookups
from schedules.models import Execution, Job
from tests.clusters import PROJECT

MODELS = sorted(admin.site._registry, key=lambda model: model._meta.label)
LOOKUPS = ("", "__regex", "__iregex", "__startswith", "__contains", "__in", "__range", "__gt")
ORACLES = [
    (Job, "owner__password__startswith"),
    (Job, "owner__cronty_profile__calendar_key__startswith"),
    (Job, "executions__result__contains"),
    (User, "password__startswith"),
    (User, "cronty_profile__calendar_key"),
    (User, "user_permissions__codename"),
]


EVERY_PAGE = f"""
import django, json
django.setup()
import cronty_site.urls
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import RequestFactory
from schedules.admin.bases import DeclaredLookups
request = RequestFactory().get("/")
request.user = User(is_superuser=True)
allowed = {{}}
for model, page in admin.site._registry.items():
    names = [field.name + lookup for field in model._meta.get_fields() for lookup in {LOOKUPS[1:]!r}]
    allowed[model._meta.label] = [name for name in names if page.lookup_allowed(name, "1", request)]
    if not isinstance(page, DeclaredLookups):
        allowed[model._meta.label].append("any")
print(json.dumps(allowed))
"""


def list_of(model) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")


def test_every_admin_page_answers_only_declared_lookups():
    assert len(MODELS) >= 8
    assert [model for model in MODELS if not isinstance(admin.site._registry[model], DeclaredLookups)] == []


def test_optional_parts_bring_no_admin_page_that_answers_more(tmp_path):
    switches = re.findall(r'environment\.boolean\("(\w+)"', Path(settings_of_the_site.__file__).read_text())
    environment = {
        **dict.fromkeys(switches, "on"),
        "PATH": os.environ["PATH"],
        "DJANGO_SETTINGS_MODULE": "cronty_site.settings",
        "CRONTY_DATA": str(tmp_path),
        "EMAIL_URL": "smtp://127.0.0.1",
    }
    shown = subprocess.run(
        [sys.executable, "-c", EVERY_PAGE], env=environment, cwd=PROJECT, check=True, capture_output=True
    )

    allowed = json.loads(shown.stdout)
    assert "CRONTY_OAUTH" in switches
    assert len(allowed) >= 8
    assert {label: lookups for label, lookups in allowed.items() if lookups} == {}
    assert [label for label in allowed if label.startswith("oauth2_provider.")] == []


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label)
def test_undeclared_lookup_is_refused_and_never_executed(operator_client, operator, model):
    page = admin.site._registry[model]
    declared = {str(each[0] if isinstance(each, tuple) else each) for each in page.list_filter}
    names = [field.name for field in model._meta.get_fields()]
    asked = [f"{name}{lookup}" for name in names for lookup in LOOKUPS if lookup or name not in declared]
    request = RequestFactory().get("/")
    request.user = operator

    assert [each for each in asked if page.lookup_allowed(each, "1", request)] == []
    # What the page does with a refused one is the same for all.
    with CaptureQueriesContext(connection) as queries:
        answers = {
            each: operator_client.get(list_of(model), {each: "1"}).status_code
            for each in asked[-len(LOOKUPS) :]
        }
    assert {each: status for each, status in answers.items() if status != 400} == {}
    table = f'FROM "{model._meta.db_table}"'
    # The page itself reads who asks.
    if model is not User:
        assert [query["sql"] for query in queries if table in query["sql"]] == []


def test_lookup_through_a_relation_is_refused(operator_client):
    for model, lookup in ORACLES:
        assert operator_client.get(list_of(model), {lookup: "a"}).status_code == 400


def test_nonsense_in_a_declared_filter_is_no_server_error(operator_client):
    for query in [
        "owner=x",
        "owner=99999999999999999999999",
        "skip=x",
        "skip=99999999999",
        "status__exact=%FF",
        "created_at__year=99999999999999999999",
        "created_at__year=x",
        "owner__isnull=maybe",
        "trash=elsewhere&task=none",
    ]:
        assert operator_client.get(f"{list_of(Job)}?{query}").status_code in (200, 302, 400)


def test_number_or_date_out_of_range_is_no_server_error(operator_client):
    for model, query in [
        (AccessLog, {"attempt_time__year": "9999"}),
        (AccessLog, {"attempt_time__year": "1"}),
        (Execution, {"scheduled_for__gte": "0001-01-01 00:00:00+14:00"}),
        (Execution, {"scheduled_for__lt": "9999-12-31 23:59:59-12:00"}),
        (User, {"groups__exact": "9" * 30}),
    ]:
        # PostgreSQL finds nothing where SQLite refuses the value.
        assert operator_client.get(list_of(model), query).status_code in (200, 400)


def test_search_is_limited_in_length(operator_client):
    for model in (Job, Execution, User):
        with CaptureQueriesContext(connection) as queries:
            answer = operator_client.get(list_of(model), {"q": "zq " * 2000})

        assert "Only the first 100 characters were searched for." in answer.content.decode()
        assert max(query["sql"].count("zq") for query in queries) < 34 * 5
