"""The reference page of the HTTP API, built from its OpenAPI document; requests can be tried with a token."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from schedules.web.views.page import render_page


@dataclass(frozen=True)
class Operation:
    """One route of the API, prepared for the page."""

    id: str
    method: str
    path: str
    summary: str
    description: str
    scope: str
    parameters: list[dict[str, Any]]
    body: list[dict[str, Any]]
    example: str
    answers: list[tuple[str, str]]

    @property
    def fields(self) -> list[dict[str, Any]]:
        """The parameters, then the fields of the body, required ones first."""
        return [*self.parameters, *sorted(self.body, key=lambda each: not each["required"])]


@require_safe
def page(request: HttpRequest, read_document: Callable[[], str]) -> HttpResponse:
    groups = _groups(read_document())
    return render_page(request, "schedules/api_reference.html", {"groups": groups})


@cache
def _groups(text: str) -> dict[str, list[Operation]]:
    """Return the routes of an OpenAPI document by their tag."""
    document = json.loads(text)
    schemas = document["components"]["schemas"]
    groups: dict[str, list[Operation]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            [tag] = operation.get("tags", ["other"])
            groups.setdefault(tag, []).append(_operation(method, path, operation, schemas))
    return groups


def _operation(method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]) -> Operation:
    model = _body_model(operation, schemas)
    _, _, rest = operation["description"].partition("\n\nScope of the token")[0].partition("\n")
    return Operation(
        id=operation["operationId"],
        method=method.upper(),
        path=path,
        summary=operation["summary"].replace("`", ""),
        description=" ".join(rest.replace("`", "").split()),
        scope=operation["x-scope"],
        parameters=[_parameter(each) for each in operation["parameters"]],
        body=_fields(model),
        example=_example(model),
        answers=[(status, answer["description"]) for status, answer in operation["responses"].items()],
    )


def _body_model(operation: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    if "requestBody" not in operation:
        return {}
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    references = [each["$ref"] for each in schema.get("anyOf", [schema]) if "$ref" in each]
    return dict(schemas[references[0].rpartition("/")[2]]) if references else {}


def _parameter(parameter: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": parameter["name"],
        "place": parameter["in"],
        "type": _type_of(parameter["schema"]),
        "required": parameter.get("required", False),
        "description": parameter.get("description", "").replace("`", ""),
    }


def _fields(model: dict[str, Any]) -> list[dict[str, Any]]:
    required = model.get("required", [])
    return [
        {
            "name": name,
            "place": "body",
            "type": _type_of(schema),
            "required": name in required,
            "description": schema.get("description", "").replace("`", ""),
        }
        for name, schema in model.get("properties", {}).items()
    ]


def _type_of(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    kinds = [_type_of(each) for each in schema.get("anyOf", []) if each.get("type") != "null"]
    return " | ".join(dict.fromkeys(kinds)) or str(schema.get("type", "any"))


def _example(model: dict[str, Any]) -> str:
    examples = model.get("examples") or ([{}] if model else [])
    return json.dumps(examples[0], indent=2, ensure_ascii=False) if examples else ""
