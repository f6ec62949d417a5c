"""The start of a process: imports that do not look for garbage, and leave out what the process does not use."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


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
