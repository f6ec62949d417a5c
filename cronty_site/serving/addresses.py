"""Kinds of addresses, and how large the body of a request to each may be."""

from collections.abc import Iterator
from enum import Enum, auto
from functools import cache

from django.conf import settings
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, reverse

from schedules.mcp.http import MCP_PATH

SMALL_BODY = 1024
LOGIN_BODY = 16_384
OAUTH_PATH = "/oauth/"
METHODS_WITH_BODY = ("POST", "PUT", "PATCH", "DELETE")


class Kind(Enum):
    ALIVE = auto()
    """The health check that reads nothing."""
    STATE = auto()
    """Readiness and metrics, which read the database."""
    LOGIN = auto()
    """Forms that check a password of somebody who is not logged in, or send one a message."""
    OAUTH = auto()
    """The authorization server, which anybody can ask."""
    MCP = auto()
    PAGE = auto()
    """Everything else."""


def kind_of(path: str) -> Kind:
    if path == MCP_PATH:
        return Kind.MCP
    if settings.CRONTY_OAUTH and path.startswith(OAUTH_PATH):
        return Kind.OAUTH
    return _kinds(settings.ROOT_URLCONF).get(path, Kind.PAGE)


def largest_body(kind: Kind, method: str) -> int | None:
    """Return the number of bytes that a request may have; None if the project has turned Django's limit off."""
    if kind in {Kind.ALIVE, Kind.STATE} or method not in METHODS_WITH_BODY:
        return SMALL_BODY
    if kind in {Kind.LOGIN, Kind.OAUTH}:
        return LOGIN_BODY
    if kind is Kind.MCP:
        return int(settings.CRONTY_MCP_BODY_BYTES)
    return settings.DATA_UPLOAD_MAX_MEMORY_SIZE


@cache
def _kinds(urlconf: str) -> dict[str, Kind]:
    """Return the addresses of this URL configuration that are not ordinary pages."""
    return dict(_found(urlconf))


def _found(urlconf: str) -> Iterator[tuple[str, Kind]]:
    names = {
        "schedules:alive": Kind.ALIVE,
        "schedules:ready": Kind.STATE,
        "schedules:metrics": Kind.STATE,
        "admin:login": Kind.LOGIN,
        "password_reset": Kind.LOGIN,
    }
    for name, kind in names.items():
        try:
            yield reverse(name, urlconf), kind
        except NoReverseMatch:
            # A project need not include the pages or the admin.
            continue
    try:
        yield resolve_url(settings.LOGIN_URL), Kind.LOGIN
    except NoReverseMatch:
        return
