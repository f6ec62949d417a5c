"""The parameters of a task's function: read their types, and build the model that validates arguments."""

import inspect
from collections.abc import Callable
from types import GenericAlias, UnionType
from typing import Annotated, Any, NotRequired, Required, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, Field, PydanticUserError, TypeAdapter, WithJsonSchema
from pydantic_core import to_jsonable_python
from typing_extensions import TypedDict

from schedules.tasks.interface import Run

_JSON_TYPES: dict[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}


def task_signature(function: Callable[..., Any]) -> tuple[inspect.Signature, str | None]:
    """Return the signature with evaluated annotations and without the run parameter, and that parameter's name."""
    hints = get_type_hints(function, include_extras=True)
    signature = inspect.signature(function)
    run_parameter = None
    parameters = []
    for parameter in signature.parameters.values():
        hint = hints.get(parameter.name, _type_like(parameter.default))
        if not _is_run(hint):
            parameters.append(parameter.replace(annotation=hint))
        elif parameter.kind is parameter.KEYWORD_ONLY and run_parameter is None:
            run_parameter = parameter.name
        else:
            raise TypeError(f"{function.__qualname__}: only one, keyword-only parameter may be a Run")
    return signature.replace(parameters=parameters), run_parameter


def _type_like(default: Any) -> Any:
    """Return the type of a parameter without annotation: any value, but forms and agents see the default's type."""
    json_type = _JSON_TYPES.get(type(default))
    return Annotated[Any, WithJsonSchema({"type": json_type})] if json_type else Any


def _is_run(hint: Any) -> bool:
    """Return whether a type is Run, perhaps annotated or optional."""
    is_wrapped = get_origin(hint) in (Annotated, Union, UnionType)
    return hint is Run or (is_wrapped and any(map(_is_run, get_args(hint))))


def arguments_adapter(name: str, signature: inspect.Signature) -> TypeAdapter[Any]:
    """Return the validator for arguments by name; raises TypeError for a type without a JSON schema."""
    # A TypedDict, because a model would reserve names like "json" and fill in the defaults a second time.
    fields = {parameter.name: _field(parameter) for parameter in signature.parameters.values()}
    arguments = TypedDict(name, fields)  # type: ignore[misc]
    config = ConfigDict(extra="forbid")
    arguments.__pydantic_config__ = config  # type: ignore[attr-defined]
    try:
        return TypeAdapter(arguments)
    except PydanticUserError as error:
        wrong = indescribable_parameters(signature)
        raise TypeError(
            f"{name}: the type of {' and '.join(wrong) or 'an argument'} has no schema: use one like str, int or datetime."
        ) from error


def _field(parameter: inspect.Parameter) -> Any:
    hint = parameter.annotation
    if parameter.kind is parameter.VAR_POSITIONAL:
        return NotRequired[GenericAlias(tuple, (hint, ...))]
    if parameter.kind is parameter.VAR_KEYWORD:
        return NotRequired[GenericAlias(dict, (str, hint))]
    if parameter.default is parameter.empty:
        return Required[hint]
    try:
        to_jsonable_python(parameter.default)
    except ValueError:
        # Forms and agents cannot show a sentinel object, or a list that contains itself.
        return NotRequired[hint]
    return NotRequired[Annotated[hint, Field(json_schema_extra={"default": parameter.default})]]


def indescribable_parameters(signature: inspect.Signature) -> list[str]:
    """Return the names of the parameters whose type has no JSON schema."""
    return [
        parameter.name
        for parameter in signature.parameters.values()
        if not _is_describable(parameter.annotation)
    ]


def _is_describable(hint: Any) -> bool:
    try:
        return has_schema(TypeAdapter(hint))
    except PydanticUserError:
        return False


def has_schema(adapter: TypeAdapter[Any]) -> bool:
    """Return whether a type has a JSON schema."""
    try:
        adapter.json_schema()
    except PydanticUserError:
        return False
    return True
