"""The reference page of the HTTP API, built from its OpenAPI document; requests can be tried with a token."""

import json
from collections.abc import Callable
from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from schedules.web.views.page import render_page

Schema = dict[str, Any]


@require_safe
def page(request: HttpRequest, read_document: Callable[[], str]) -> HttpResponse:
    groups = _groups(read_document())
    return render_page(request, "schedules/api_reference.html", {"groups": groups})


@cache
def _groups(text: str) -> dict[str, list[Schema]]:
    """Return the routes of an OpenAPI document by their tag, prepared for the page."""
    document = json.loads(text)
    groups: dict[str, list[Schema]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            [tag] = operation.get("tags", ["other"])
            shown = _operation(operation, document["components"]["schemas"])
            groups.setdefault(tag, []).append(shown | {"method": method.upper(), "path": path})
    return groups


def _operation(operation: Schema, schemas: Schema) -> Schema:
    model = _body_model(operation, schemas)
    examples = model.get("examples") or ([{}] if model else [])
    _, _, rest = operation["description"].partition("\n\nScope of the token")[0].partition("\n")
    parameters = [
        _field(each["name"], each["in"], each["schema"], each, is_required=each.get("required", False))
        for each in operation["parameters"]
    ]
    body = [
        _field(name, "body", schema, schema, is_required=name in model.get("required", []))
        for name, schema in model.get("properties", {}).items()
    ]
    return {
        "id": operation["operationId"],
        "summary": operation["summary"].replace("`", ""),
        "description": " ".join(rest.replace("`", "").split()),
        "scope": operation["x-scope"],
        "parameters": parameters,
        # Required ones first.
        "fields": [*parameters, *sorted(body, key=lambda each: not each["required"])],
        "example": json.dumps(examples[0], indent=2, ensure_ascii=False) if examples else "",
        "answers": [(status, answer["description"]) for status, answer in operation["responses"].items()],
    }


def _body_model(operation: Schema, schemas: Schema) -> Schema:
    if "requestBody" not in operation:
        return {}
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    references = [each["$ref"] for each in schema.get("anyOf", [schema]) if "$ref" in each]
    return dict(schemas[references[0].rpartition("/")[2]]) if references else {}


def _field(name: str, place: str, schema: Schema, described: Schema, *, is_required: bool) -> Schema:
    words = described.get("description", "").replace("`", "")
    return {
        "name": name,
        "place": place,
        "type": _type_of(schema),
        "required": is_required,
        "description": words,
    }


def _type_of(schema: Schema) -> str:
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    kinds = [_type_of(each) for each in schema.get("anyOf", []) if each.get("type") != "null"]
    return " | ".join(dict.fromkeys(kinds)) or str(schema.get("type", "any"))
