"""The subcommand that opens and closes trigger addresses."""

import json

import pytest

from schedules.models import TriggerAddress
from tests.factories import JobFactory

pytestmark = pytest.mark.django_db


def test_address_is_printed_once_and_taken_away(cronty, owner):
    job = JobFactory(owner=owner, name="Deploy")

    opened = cronty("trigger", "Deploy", "--json")
    assert (opened.code, json.loads(opened.out)["id"]) == (0, job.public_id)
    assert "/trigger/" in json.loads(opened.out)["url"]

    again = cronty("trigger", "Deploy")
    assert again.out.strip().rpartition("/trigger/")[0] == "http://127.0.0.1:8000"
    assert again.out.count(" ") == 0
    assert "It is not shown again" in again.err

    assert cronty("trigger", "Deploy", "--close").code == 0
    assert not TriggerAddress.objects.exists()
    assert cronty("trigger", "Deploy", "--close").code != 0


def test_signed_address_needs_a_secret(cronty, owner):
    JobFactory(owner=owner, name="Deploy")

    said = cronty("trigger", "Deploy", "--scheme", "github", "--secret", "NONE")

    assert said.code != 0
    assert "Name one of your secrets" in said.err
