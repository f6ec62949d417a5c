"""The JSON Schema of job files, for editors."""

import json
from collections.abc import Mapping
from typing import Any

from schedules.limits import MAX_TAGS, NAME_LENGTH, TAG_LENGTH
from schedules.models.alert_rules import RULES_OF_JOB
from schedules.models.calendars import MAX_CALENDARS_PER_JOB
from schedules.services.files.jobs import CATCH_UPS, ON_CLOSED, OVERLAPS
from schedules.tasks.grants import LONGEST_GRANT, MAX_GRANTS

_MOMENT = {
    "type": "string",
    "description": "A date and time, like 2026-12-24T18:00; without an offset, in the job's zone.",
}
_SPAN = {
    "type": ["string", "integer"],
    "pattern": "^([0-9]+[dhms])+$",
    "description": 'A duration like "5m" or "1h30m", or seconds.',
}
_ZONE = {"type": "string", "description": "An IANA time zone, like Europe/Berlin."}


def job_schema(tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the schema of a file; `tasks` has the schema of each task's arguments."""
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
                    "every": _SPAN | {"description": "Elapsed time between runs, like 36h."},
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
            "name": {"type": "string", "maxLength": NAME_LENGTH, "description": "Default: the key."},
            "task": {"enum": sorted(tasks), "description": "What runs."},
            "arguments": {"type": "object", "description": "The arguments of the task, by name."},
            "args": {"type": "array", "description": "Further arguments, by position."},
            "schedule": schedule,
            "timezone": _ZONE,
            "spread": _SPAN
            | {"description": "Start up to this much later, by the same random delay each time."},
            "ends_at": _MOMENT
            | {
                "type": ["string", "null"],
                "description": "No run after this time; a date includes its whole day.",
            },
            "max_runs": {
                "type": ["integer", "null"],
                "minimum": 1,
                "description": "Stop after this many scheduled runs.",
            },
            "calendars": {
                "type": "array",
                "maxItems": MAX_CALENDARS_PER_JOB,
                "items": {"type": "string"},
                "description": "The names of the calendars that close times for it.",
            },
            "on_closed": {"enum": list(ON_CLOSED), "description": "What to do with a run at a closed time."},
            "attempts": {"type": "integer", "minimum": 1, "maximum": 10, "description": "Tries per run."},
            "backoff": _SPAN | {"description": "Wait before the next try, twice as long each time."},
            "fixed_backoff": {"type": "boolean", "description": "Wait equally long each time."},
            "timeout": _SPAN | {"description": "Time limit of a run."},
            "overlap": {"enum": list(OVERLAPS), "description": "What to do while the last run goes on."},
            "catch_up": {"enum": list(CATCH_UPS), "description": "Which missed runs to make up for."},
            "pause_after_failures": {"type": "integer", "minimum": 0, "description": "0 means never."},
            "at_most_once": {"type": "boolean", "description": "Do not repeat a run whose worker died."},
            "alerts": {
                "type": "string",
                "maxLength": 200,
                "description": f"{RULES_OF_JOB}.",
            },
            "label": {"type": "string", "maxLength": NAME_LENGTH},
            "tags": {
                "type": "array",
                "maxItems": MAX_TAGS,
                "items": {"type": "string", "maxLength": TAG_LENGTH},
            },
            "grants": {
                "type": "array",
                "maxItems": MAX_GRANTS,
                "items": {"type": "string", "maxLength": LONGEST_GRANT},
                "description": "Of a prompt: what its agent may do beyond what its runner allows.",
            },
            "paused": {
                "type": "boolean",
                "description": "Whether it is paused; left out, a pause is left alone.",
            },
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
            "timezone": _ZONE | {"description": "The time zone of jobs that have none."},
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
