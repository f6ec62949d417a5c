"""Whoever is alerted nowhere learns it at each door, and nobody else does."""

import pytest
from django.urls import reverse

from schedules.management.commands.up import greeting
from schedules.management.doctor import database
from schedules.models import Profile
from schedules.services.people.preferences import MEND, people_unalerted, why_unalerted
from tests.factories import JobFactory

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("place", "alerts", "names"),
    [
        ({}, "", ["olga"]),
        ({"failure_topic": "alarm"}, "", []),
        ({"alert_channel": "phone"}, "", []),
        ({}, "alarm", []),
    ],
)
def test_people_with_jobs_and_no_place_for_alerts(owner, place, alerts, names):
    Profile.objects.filter(user=owner).update(**place)
    JobFactory(owner=owner, alerts=alerts)

    assert people_unalerted() == names
    assert bool(why_unalerted(Profile.objects.get(user=owner))) is not bool(place)


@pytest.mark.parametrize("place", ["", "alarm"])
def test_doors_say_so(client, owner, place):
    Profile.objects.filter(user=owner).update(failure_topic=place)
    JobFactory(owner=owner)
    client.force_login(owner)
    because = why_unalerted(Profile.objects.get(user=owner))

    pages = [client.get(reverse(f"schedules:{name}")).content.decode() for name in ("jobs", "system")]
    (finding,) = (each for each in database.examine_content() if each.check == "alerts")
    greeted = greeting({"host": "127.0.0.1", "port": 9, "no_web": False}, None, "olga", because)

    assert {"Choose where alerts go" in page for page in pages} == {not place}
    assert (finding.level == "warning", MEND in finding.remedy, MEND in greeted) == (not place,) * 3
