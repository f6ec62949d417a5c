"""The JSON Schema for editors agrees with the reader."""

import pytest
from jsonschema import Draft202012Validator

from schedules.services.files.jobs import FIELDS
from schedules.services.files.schema import job_schema
from schedules.tasks import registry

SCHEMA = job_schema({task.name: task.schema for task in registry.all_tasks()})
GOOD = {
    "timezone": "UTC",
    "jobs": {
        "A": {
            "schedule": {"every": "36h"},
            "task": "notify",
            "arguments": {
                "message": "x",
                "topic": "t",
                "actions": [{"action": "view", "label": "l", "url": "https://x"}],
            },
            "timeout": "5m",
        }
    },
}


def problems_of(job: dict[str, object]) -> list[str]:
    document = {"jobs": {"A": GOOD["jobs"]["A"] | job}}
    return [error.message for error in Draft202012Validator(SCHEMA).iter_errors(document)]


def test_schema_is_valid_and_has_every_field():
    Draft202012Validator.check_schema(SCHEMA)

    job = SCHEMA["properties"]["jobs"]["additionalProperties"]
    assert sorted(job["properties"]) == sorted(FIELDS)
    assert list(Draft202012Validator(SCHEMA).iter_errors(GOOD)) == []


@pytest.mark.parametrize(
    "job",
    [
        {"tsak": "x"},
        {"task": "nothing"},
        {"arguments": {"topic": "t"}},
        {"arguments": {"message": "x", "topic": "t", "volume": 3}},
        {"timeout": [5]},
        {"tags": "home"},
        {"schedule": {"hours": 1}},
        {"attempts": 11},
    ],
    ids=str,
)
def test_schema_refuses_what_the_reader_refuses(job):
    assert problems_of(job) != []
