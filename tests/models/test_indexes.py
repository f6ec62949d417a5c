"""Indexes of frequent queries, whose cost must not grow with the history."""

import pytest
from django.db import connection

from schedules import clock
from schedules.models import Event, Execution, Job
from schedules.models.job_table import IS_UNSENT_NOTIFICATION

now = clock.now()

HOT = {
    "due jobs": (Job.objects.due(now).order_by("next_run_at"), "job_due"),
    "the number of jobs of the next slot": (Job.objects.due(now).order_by().values("pk")[:1000], "job_due"),
    "pauses that are over": (
        Job.objects.kept().filter(status="paused", paused_until__lte=now).order_by("paused_until"),
        "job_paused_until",
    ),
    "ready runs": (Execution.objects.ready(now).order_by("available_at"), "execution_ready"),
    "abandoned runs": (Execution.objects.abandoned(now).order_by("pk"), "execution_held"),
    "runs held by a cluster": (Execution.objects.held().filter(cluster_id=1).order_by(), "execution_held"),
    "waiting prompts": (Execution.objects.claimable(now).order_by("scheduled_for"), "execution_waiting"),
    "newest changes of a person": (Event.objects.filter(owner=1).order_by("-pk"), "event_owner"),
    "live runs": (Execution.objects.live().order_by(), "execution_live_job"),
    "newest failures": (
        Execution.objects.indexed_for("failed"),
        "execution_unsuccessful",
    ),
    "newest failures of a person": (
        Execution.objects.filter(owner=1).indexed_for("failed"),
        "execution_unsuccessful_owner",
    ),
    "which jobs are running": (Job.objects.with_activity().order_by(), "execution_live_job"),
    "the list": (Job.objects.kept().owned_by(1).with_activity(), "job_list"),
    "the number of notifications to be sent": (
        Job.objects.owned_by(1).filter(IS_UNSENT_NOTIFICATION).values("pk"),
        "job_notifications (",
    ),
    "the trash": (Job.objects.trashed().owned_by(1).order_by(), "job_trash"),
}


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL plans by the size of its tables")
@pytest.mark.parametrize(("query", "index"), HOT.values(), ids=HOT)
@pytest.mark.django_db
def test_frequent_query_uses_its_partial_index(query, index):
    plan = query.explain()

    assert index in plan
