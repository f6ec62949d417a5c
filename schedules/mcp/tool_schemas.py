"""The JSON schemas of tools, without what only costs agents context."""

from typing import Any

from pydantic import BaseModel, ConfigDict, RootModel, TypeAdapter, create_model
from pydantic.json_schema import GenerateJsonSchema

from schedules.mcp.answers.job_refusals import ErrorOut


class _UntitledSchema(GenerateJsonSchema):
    """Schemas without the titles that only repeat an argument's name."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def argument_schema(arguments: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a tool's arguments."""
    return _slim_arguments(arguments.model_json_schema(by_alias=True, schema_generator=_UntitledSchema))


def answer_schema(tool: str, answer: Any) -> dict[str, Any]:
    """Return the schema of a tool's answer."""
    adapter: TypeAdapter[Any] = TypeAdapter(_answer_model(tool, answer))
    return _slim_answer(adapter.json_schema(schema_generator=_UntitledSchema, mode="serialization"))


def _answer_model(tool: str, answer: Any) -> type[BaseModel]:
    """Return the model whose schema is published; it says "object", which every client can read."""
    # Only its schema is needed.
    config = ConfigDict(defer_build=True)
    if answer is str:
        return create_model(f"{tool}Output", result=(str, ...), __config__=config)
    root: Any = RootModel.__class_getitem__(answer)
    config["json_schema_extra"] = {"type": "object"}
    return type(f"{tool}_result", (root,), {"model_config": config, "__module__": __name__})


def _slim_arguments(schema: dict[str, Any]) -> dict[str, Any]:
    """Leave out titles, which repeat names, defaults, which descriptions name, and null, which every optional argument takes."""
    slim = {key: value for key, value in schema.items() if key not in ("title", "default")}
    # An object may have any keys unless its schema says otherwise.
    if slim.get("additionalProperties") is True:
        del slim["additionalProperties"]
    if "enum" in slim:
        slim["enum"] = [value for value in slim["enum"] if value is not None]
    if "items" in slim:
        slim["items"] = _slim_arguments(slim["items"])
    if "properties" in slim:
        slim["properties"] = {name: _slim_arguments(value) for name, value in slim["properties"].items()}
    if "anyOf" in slim:
        alternatives = [_slim_arguments(each) for each in slim.pop("anyOf") if each != {"type": "null"}]
        slim = {**alternatives[0], **slim} if len(alternatives) == 1 else {"anyOf": alternatives, **slim}
    return slim


def _slim_answer(schema: dict[str, Any]) -> dict[str, Any]:
    """Leave out what a client does not need for checking an answer; of a refusal, promise only the reason."""
    slim = {key: value for key, value in schema.items() if key not in ("title", "description")}
    if slim.get("additionalProperties") is True:
        del slim["additionalProperties"]
    for group in {"$defs", "properties"} & slim.keys():
        slim[group] = {name: _slim_answer(value) for name, value in slim[group].items()}
    if "items" in slim:
        slim["items"] = _slim_answer(slim["items"])
    if "anyOf" in slim:
        slim["anyOf"] = [_slim_answer(each) for each in slim["anyOf"]]
    if refusal := slim.get("$defs", {}).get(ErrorOut.__name__):
        refusal["properties"] = {"error": refusal["properties"]["error"]}
    return slim
