"""The system page: clusters, queue, lateness and settings."""

from datetime import timedelta

from django.conf import LazySettings
from django.contrib.auth.models import User
from django.test import Client

from schedules import clock
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory
from tests.web.html import html_of


def test_clusters_queue_and_lateness_are_shown(web: Client, owner: User):
    ClusterFactory(host="kettle")
    ClusterFactory(host="gone", last_seen_at=clock.now() - timedelta(hours=1))
    job = JobFactory(owner=owner, next_run_at=clock.now() - timedelta(minutes=9))
    ExecutionFactory(job=job, status="queued", cause="manual")
    ExecutionFactory(job=job, lateness=timedelta(milliseconds=40))

    answer = web.get("/system/")

    page = answer.content.decode()
    assert answer.context["live"] == {"queued": 1}
    assert "40 ms median" in page
    assert "kettle" in page
    assert ">Offline<" in page.replace("</svg>Offline", ">Offline")


def test_settings_are_shown_only_to_staff(web: Client, staff: Client):
    assert "CRONTY_MAX_ACTIVE_JOBS" not in web.get("/system/").content.decode()
    assert "CRONTY_MAX_ACTIVE_JOBS" in staff.get("/system/").content.decode()


def test_secret_setting_is_never_shown(staff: Client, settings: LazySettings):
    settings.NTFY_TOKEN = "tk_verysecret"

    assert "tk_verysecret" not in staff.get("/system/").content.decode()


def test_wrong_clocks_and_other_zone_data_are_shown(web: Client):
    ClusterFactory(host="kettle", clock_ahead=90, zone_data="2025b")

    page = web.get("/system/").content.decode()

    assert "The clock of kettle is 90 seconds ahead of the database&#x27;s." in page
    assert "kettle has 2025b" in page
    assert "90.0 s" in page


def test_broken_file_of_commands_is_reported_with_details_for_staff_only(web, staff, commands_file):
    commands_file.write_text("[half")

    shown = html_of(web.get("/system/"))
    assert (
        "The file commands.toml, line 1, cannot be used, so no command can run. Tell your operator." in shown
    )
    assert "commands.toml cannot be used" in html_of(staff.get("/system/"))
