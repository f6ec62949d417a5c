"""Every address of the site, read from the URL configuration, so that no new page is forgotten."""

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.db import transaction
from django.db.models import Model
from django.urls import URLPattern, URLResolver, get_resolver

PARAMETER = re.compile(r"<(?:\w+:)?(?P<name>\w+)>")
REGEX_GROUP = re.compile(r"\(\?P<(?P<name>\w+)>[^()]*\)")


@dataclass(frozen=True)
class Address:
    """One pattern: `admin/auth/user/<path:object_id>/` is the admin's page of a user."""

    route: str
    name: str
    is_public: bool
    # Whether it takes forms without a CSRF token.
    is_exempt: bool

    @property
    def parameters(self) -> list[str]:
        return PARAMETER.findall(self.route)

    @property
    def is_admin(self) -> bool:
        return self.route.startswith("admin/")

    @property
    def is_api(self) -> bool:
        """Whether it asks for a token instead of a login."""
        return self.route.startswith("api/v1/")

    @property
    def model(self) -> type[Model] | None:
        """The model whose admin page this is."""
        return next((model for model in admin.site._registry if self.route.startswith(_folder(model))), None)

    def path(self, values: Mapping[str, Any]) -> str:
        return "/" + PARAMETER.sub(lambda found: str(values[found["name"]]), self.route)

    def __str__(self) -> str:
        return f"/{self.route}"


def every_address() -> list[Address]:
    return list(_walk(get_resolver(), "", ""))


def for_each(addresses: Sequence[Address]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test function with every address, each time with the rows as they were; a failure names the address.

    One test for all, because the fixtures of a test cost more than most requests.
    """

    assert addresses, "a test of no address would always pass"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def call_for_all(**fixtures: Any) -> None:
            for address in addresses:
                try:
                    with transaction.atomic():
                        test(address=address, **fixtures)
                        transaction.set_rollback(True)
                except BaseException as error:
                    error.add_note(f"The address is {address}.")
                    raise

        signature = inspect.signature(test)
        others = [each for name, each in signature.parameters.items() if name != "address"]
        call_for_all.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return call_for_all

    return decorate


def _walk(resolver: URLResolver, prefix: str, namespace: str) -> Iterator[Address]:
    for pattern in resolver.url_patterns:
        route = prefix + _readable(str(pattern.pattern))
        if isinstance(pattern, URLResolver):
            inner = f"{namespace}{pattern.namespace}:" if pattern.namespace else namespace
            yield from _walk(pattern, route, inner)
        elif isinstance(pattern, URLPattern):
            is_public = not getattr(pattern.callback, "login_required", True)
            is_exempt = getattr(pattern.callback, "csrf_exempt", False)
            yield Address(route, f"{namespace}{pattern.name or ''}", is_public, is_exempt)


def _readable(pattern: str) -> str:
    """Write a regular expression of the admin in the syntax of the other routes."""
    return REGEX_GROUP.sub(r"<\g<name>>", pattern).strip("^$")


def _folder(model: type[Model]) -> str:
    return f"admin/{model._meta.app_label}/{model._meta.model_name}/"
