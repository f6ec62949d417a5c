"""The JSON Schema of job files, for editors."""

import json
from collections.abc import Mapping
from typing import Any

from schedules.limits import NAME_LENGTH
from schedules.spec.job import FileSpec

_MOMENT = {
    "type": "string",
    "description": "A date and time, like 2026-12-24T18:00; without an offset, in the job's zone.",
}


def job_schema(tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the schema of a file; `tasks` has the schema of each task's arguments."""
    options = FileSpec.model_json_schema()["properties"]
    schedule = {
        "description": "When it runs.",
        "anyOf": [
            {
                "type": "string",
                "examples": ["every weekday at 8:30", "*/15 * * * *", "2026-12-24T18:00"],
            },
            {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "every": options["timeout"] | {"description": "Elapsed time between runs, like 36h."},
                    "days": {"type": "integer", "minimum": 1, "description": "Days on the wall clock."},
                    "months": {"type": "integer", "minimum": 1, "description": "Months on the wall clock."},
                    "start": _MOMENT,
                },
            },
        ],
    }
    definitions, arguments = _hoisted(tasks)
    job = {
        "type": "object",
        "additionalProperties": False,
        "required": ["task", "schedule"],
        "properties": {
            **options,
            "task": {"enum": sorted(tasks), "description": options["task"]["description"]},
            "schedule": schedule,
        },
        "allOf": [
            {
                "if": {"properties": {"task": {"const": name}}, "required": ["task"]},
                "then": {"properties": {"arguments": schema}},
            }
            for name, schema in arguments.items()
        ],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Jobs of Cronty",
        "type": "object",
        "additionalProperties": False,
        "required": ["jobs"],
        "properties": {
            "timezone": options["timezone"] | {"description": "The time zone of jobs that have none."},
            "jobs": {
                "type": ["object", "null"],
                "description": "The jobs, each below its name.",
                "propertyNames": {"minLength": 1, "maxLength": NAME_LENGTH},
                "additionalProperties": job,
            },
        },
        "$defs": definitions,
    }


def _hoisted(tasks: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the definitions of all tasks, prefixed with the task, and the schemas that refer to them."""
    definitions: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for name, schema in sorted(tasks.items()):
        own = json.loads(json.dumps(schema).replace('"#/$defs/', f'"#/$defs/{name}.'))
        definitions |= {f"{name}.{key}": value for key, value in own.pop("$defs", {}).items()}
        schemas[name] = {"additionalProperties": False} | own
    return definitions, schemas
