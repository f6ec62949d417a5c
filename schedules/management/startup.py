"""The start of a process: imports that do not look for garbage, and leave out what the process does not use."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Do not look for garbage now, nor later among the objects created meanwhile.

    Imports create many objects that stay; looking through them again and again takes a tenth of the start.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


@contextmanager
def deferred_models() -> Iterator[None]:
    """Let pydantic build the models that are defined meanwhile at their first use; most are never used."""
    # `cronty --help` can do without it.
    from pydantic import BaseModel  # noqa: PLC0415

    BaseModel.model_config["defer_build"] = True
    try:
        yield
    finally:
        del BaseModel.model_config["defer_build"]


@contextmanager
def deferred_adapters() -> Iterator[None]:
    """Let pydantic build the type adapters that libraries create meanwhile at their first use.

    Loading the MCP SDK builds 21 of them, which takes a twentieth of the time to the first answer.
    """
    # Most commands can do without it.
    import pydantic  # noqa: PLC0415

    adapter = pydantic.TypeAdapter

    # Final for type checkers, because a subclass seldom makes sense; this one only has another default.
    class DeferredAdapter(adapter[T], Generic[T]):  # type: ignore[misc, valid-type]
        def __init__(self, type: Any, *, config: Any = None, **more: Any) -> None:  # noqa: A002  (pydantic's own name)
            try:
                super().__init__(type, config=config or {"defer_build": True}, **more)
            except pydantic.PydanticUserError:
                # A type with a configuration of its own takes no other.
                super().__init__(type, config=config, **more)

    pydantic.TypeAdapter = DeferredAdapter  # type: ignore[misc]
    try:
        yield
    finally:
        pydantic.TypeAdapter = adapter  # type: ignore[misc]


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
