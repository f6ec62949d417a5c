"""The start of a process: imports that do not look for garbage, and leave out what the process does not use."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import pydantic
from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter

T = TypeVar("T")


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Do not look for garbage now, nor later among the objects created meanwhile.

    Imports create many objects that stay; looking through them again and again takes a tenth of the start.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


# Final for type checkers, because subclasses seldom make sense; this one only has another default.
class DeferredAdapter(TypeAdapter[T], Generic[T]):  # type: ignore[misc]
    """A type adapter that is built at its first use."""

    def __init__(self, type: Any, *, config: ConfigDict | None = None, **more: Any) -> None:  # noqa: A002
        try:
            super().__init__(type, config=config or ConfigDict(defer_build=True), **more)
        except PydanticUserError:
            # A type with a configuration of its own takes no other.
            super().__init__(type, config=config, **more)


@contextmanager
def deferred_models() -> Iterator[None]:
    """Let pydantic build what is defined meanwhile, models and type adapters, at its first use; most is never used."""
    BaseModel.model_config["defer_build"] = True
    pydantic.TypeAdapter = DeferredAdapter  # type: ignore[misc]
    try:
        yield
    finally:
        pydantic.TypeAdapter = TypeAdapter  # type: ignore[misc]
        del BaseModel.model_config["defer_build"]


@contextmanager
def without_modules(*names: str) -> Iterator[None]:
    """Make these modules look as if they were not installed, to libraries that can do without them."""
    hidden = [name for name in names if name not in sys.modules]
    # An entry of None makes an import fail, see "The module cache" in Python's language reference.
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
