"""Jobs with a random delay: what the engine fires is what every forecast has shown."""

from datetime import UTC, datetime, timedelta

import pytest

from schedules import engine
from schedules.models import Execution, Job
from schedules.services.jobs.chains import upcoming
from schedules.services.jobs.forecasts import next_runs_of
from schedules.web.views import forecast
from schedules.when.spread import delay_of
from tests.services.made_jobs import create_job

# The next night, clocks in Berlin go forward.
BEFORE = datetime(2026, 3, 28, 0, 0, tzinfo=UTC)
SPREAD = timedelta(minutes=20)
DAY = timedelta(days=1)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "schedule",
    [
        {"trigger_type": "cron", "cron": "30 2 * * *"},
        {"trigger_type": "cron", "cron": "0 */6 * * *"},
        {"trigger_type": "interval", "cron": "", "every": timedelta(hours=7)},
    ],
    ids=["daily", "often", "interval"],
)
def test_preview_and_forecasts_are_what_fires(actor, cluster, time_machine, schedule):
    time_machine.move_to(BEFORE, tick=False)
    job = create_job(actor, **schedule, timezone="Europe/Berlin", spread=SPREAD, overlap="allow")
    delay = delay_of(job.public_id, SPREAD)
    slots = job.undelayed_trigger.upcoming(BEFORE - delay, 4)
    (row,) = forecast.soonest(Job.objects.all(), BEFORE + 7 * DAY)

    previewed = next_runs_of(job, BEFORE, 4)
    listed = [slot for slot, _ in upcoming(actor, BEFORE, hours=24 * 7)][:4]
    batches = forecast.runs_of(row, BEFORE, BEFORE + 7 * DAY)
    counted = [moment for batch in batches for moment in batch.moments()][:4]
    fired = []
    for slot in previewed:
        assert engine.claim_runs(cluster.pk, slot - timedelta(microseconds=1), 10) == []
        assert len(engine.claim_runs(cluster.pk, slot, 10)) == 1
        fired.append(Execution.objects.latest("pk").scheduled_for)

    assert previewed == listed == counted == fired == [slot + delay for slot in slots]


@pytest.mark.django_db
def test_slots_of_a_downtime_are_those_of_the_delayed_schedule(actor, cluster, time_machine):
    time_machine.move_to(BEFORE, tick=False)
    job = create_job(actor, cron="0 * * * *", spread=SPREAD, catch_up="all", overlap="allow")
    expected = next_runs_of(job, BEFORE, 3)

    engine.claim_runs(cluster.pk, expected[-1] + timedelta(seconds=5), 10)

    assert (
        list(Execution.objects.order_by("scheduled_for").values_list("scheduled_for", flat=True)) == expected
    )
