"""The published schemas of a tool, and how its arguments are read."""

import functools
from typing import Any

from mcp.server.mcpserver.utilities.func_metadata import FuncMetadata
from pydantic import BaseModel, ConfigDict, RootModel, create_model
from pydantic.json_schema import GenerateJsonSchema


def advertised(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema of arguments without what a model need not read: null is accepted for every optional one.

    Titles repeat names, descriptions name the defaults that matter, and an object may have any keys anyway.
    """
    kept = {key: value for key, value in schema.items() if key not in ("title", "default")}
    if kept.get("additionalProperties") is True:
        del kept["additionalProperties"]
    if "enum" in kept:
        kept["enum"] = [value for value in kept["enum"] if value is not None]
    if "items" in kept:
        kept["items"] = advertised(kept["items"])
    if "properties" in kept:
        kept["properties"] = {name: advertised(value) for name, value in kept["properties"].items()}
    if "anyOf" in kept:
        arms = [advertised(arm) for arm in kept.pop("anyOf") if arm != {"type": "null"}]
        kept = {**arms[0], **kept} if len(arms) == 1 else {"anyOf": arms, **kept}
    return kept


class Untitled(GenerateJsonSchema):
    """Schemas without titles that only repeat an argument's name: every word costs an agent context."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


class ToolMetadata(FuncMetadata):
    """Arguments and result of a tool, where an argument that is text is never read as JSON."""

    @functools.cached_property
    def _texts(self) -> frozenset[str]:
        return frozenset(
            info.alias or name
            for name, info in self.arg_model.model_fields.items()
            if info.annotation in (str, str | None, Any)
        )

    def pre_parse_json(self, data: dict[str, Any]) -> dict[str, Any]:
        """Read JSON inside strings, as some clients send lists, except where a string is expected."""
        texts = {
            name: value for name, value in data.items() if isinstance(value, str) and name not in self._texts
        }
        return data | super().pre_parse_json(texts) if texts else data


def answer_model(name: str, answer: Any) -> type[BaseModel]:
    """Return the model whose schema is published; it says "object", which every client can read."""
    # Only its schema is needed.
    config = ConfigDict(defer_build=True)
    if answer is str:
        return create_model(f"{name}Output", result=(str, ...), __config__=config)
    root: Any = RootModel.__class_getitem__(answer)
    config["json_schema_extra"] = {"type": "object"}
    return type(f"{name}_result", (root,), {"model_config": config, "__module__": __name__})
