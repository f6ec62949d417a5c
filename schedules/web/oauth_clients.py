"""Self-registration of OAuth clients, and the checks of their metadata."""

import asyncio
import json
import re
from contextlib import suppress
from typing import Any
from urllib.parse import SplitResult, urlsplit

from asgiref.sync import async_to_sync
from django.http import HttpRequest, HttpResponse, JsonResponse
from oauth2_provider.cimd import CIMDError
from oauth2_provider.models import get_application_model
from oauth2_provider.views import DynamicClientRegistrationManagementView, DynamicClientRegistrationView

from schedules import limits
from schedules.services.people import connected_apps
from schedules.tasks import outbound

LOOPBACK = ("127.0.0.1", "::1", "localhost")
GRANTS = ("authorization_code", "refresh_token")
MAX_REGISTRATION_LENGTH = 8192
# Safe in a header, and shown by browsers unchanged.
PLAIN_HOST = re.compile(r"[A-Za-z0-9.:\[\]-]*")
FETCH_SECONDS = 3
# How long a document may be cached.
DOCUMENT_SECONDS = 3600


class DocumentPermission:
    """Applies the limit of registrations to clients whose id is the address of a metadata document."""

    def has_permission(self, request: Any, client_id: str) -> bool:
        is_registered = get_application_model().objects.filter(client_id=client_id).exists()
        return is_registered or connected_apps.may_register(request.headers.get("REMOTE_ADDR") or "")


class DocumentFetcher:
    """Fetches the metadata document of a client, from public addresses only, like all outbound requests."""

    def fetch(self, client_id: str) -> tuple[dict[str, Any], int]:
        """Return the metadata, and for how many seconds to cache it; raise CIMDError if it is unusable."""
        parts = _parts(client_id)
        if parts is None or parts.scheme != "https" or not parts.path or "#" in client_id:
            raise CIMDError("the address of a client has https, a path and no fragment")
        if {".", ".."} & set(parts.path.split("/")):
            raise CIMDError("the address of a client has no dots as a part of its path")
        try:
            reply = async_to_sync(_fetch)(client_id)
        except (outbound.OutboundError, TimeoutError) as error:
            raise CIMDError(str(error)) from error
        if reply.status != 200 or reply.truncated or len(reply.text) > MAX_REGISTRATION_LENGTH:
            raise CIMDError(f"status {reply.status}, or more than {MAX_REGISTRATION_LENGTH} characters")
        try:
            metadata = json.loads(reply.text)
        except (ValueError, RecursionError) as error:
            raise CIMDError("not JSON") from error
        if not isinstance(metadata, dict):
            raise CIMDError("not a JSON object")
        if problem := _metadata_problem(metadata):
            raise CIMDError(problem[1])
        return metadata, DOCUMENT_SECONDS


async def _fetch(address: str) -> outbound.Reply:
    async with asyncio.timeout(FETCH_SECONDS):
        return await outbound.send("GET", address, headers={"accept": "application/json"})


class RegistrationView(DynamicClientRegistrationView):  # type: ignore[misc]
    """Registers clients, with limits on size and on registrations per hour from one address."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if refusal := _registration_refusal(request.body):
            return refusal
        if not connected_apps.may_register(request.META.get("REMOTE_ADDR") or ""):
            description = "Too many clients have registered from this address; try again later."
            refusal = refuse("temporarily_unavailable", description, 429)
            refusal["Retry-After"] = "600"
            return refusal
        registered: HttpResponse = super().post(request, *args, **kwargs)
        return registered


class RegistrationChangeView(DynamicClientRegistrationManagementView):  # type: ignore[misc]
    """Lets a client change its registration."""

    def put(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if refusal := _registration_refusal(request.body):
            return refusal
        changed: HttpResponse = super().put(request, *args, **kwargs)
        return changed


def redirect_problem(address: str) -> str:
    """Return why a redirect address is not allowed, or an empty text if it is."""
    parts = _parts(address)
    # The library stores addresses separated by spaces, so one with spaces would become several.
    if parts is None or address.split() != [address]:
        return "give one valid address in each text."
    if not PLAIN_HOST.fullmatch(parts.netloc):
        return "use a host of ASCII letters, digits, dots and hyphens, and no user name."
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        return "use https, or http on the loopback address."
    return ""


def origin_of(address: str) -> str:
    """Return the origin of a redirect address as a source for a Content-Security-Policy, or "" if it is not allowed."""
    parts = _parts(address)
    if parts is None or redirect_problem(address):
        return ""
    if parts.scheme not in ("http", "https"):
        return f"{parts.scheme}:" if parts.scheme else ""
    return f"{parts.scheme}://{parts.netloc}"


def refuse(error: str, description: str, status: int) -> JsonResponse:
    return JsonResponse({"error": error, "error_description": description}, status=status)


def _registration_refusal(body: bytes) -> JsonResponse | None:
    """Return an error for a registration that the library would wrongly accept, or crash on."""
    if len(body) > MAX_REGISTRATION_LENGTH:
        return refuse("invalid_client_metadata", f"At most {MAX_REGISTRATION_LENGTH} bytes.", 413)
    try:
        metadata = json.loads(body)
    except RecursionError:
        return refuse("invalid_client_metadata", "This is not a registration.", 400)
    except ValueError:
        return None  # The library reports this error itself.
    problem = _metadata_problem(metadata)
    return refuse(*problem, 400) if problem else None


def _metadata_problem(metadata: Any) -> tuple[str, str] | None:
    """Return an error code and a description for metadata that the library would wrongly accept, or crash on."""
    # Twice the limit of the body, because the same metadata may be longer when it is serialized again.
    if problem := limits.json_problem(metadata, max_bytes=2 * MAX_REGISTRATION_LENGTH):
        return "invalid_client_metadata", problem
    if not isinstance(metadata, dict):
        return None
    if not isinstance(metadata.get("client_name", ""), str):
        return "invalid_client_metadata", "client_name: give a text."
    if set(_texts(metadata.get("grant_types"))) - set(GRANTS):
        return "invalid_client_metadata", f"grant_types: choose from {' and '.join(GRANTS)}."
    problems = [redirect_problem(address) for address in _texts(metadata.get("redirect_uris"))]
    if any(problems):
        return "invalid_redirect_uri", f"redirect_uris: {next(filter(None, problems))}"
    return None


def _texts(values: Any) -> list[str]:
    # Values of other types are left to the library, which reports them.
    return [each for each in values if isinstance(each, str)] if isinstance(values, list) else []


def _parts(address: str) -> SplitResult | None:
    """Split an address, or return None if it is malformed."""
    with suppress(ValueError):
        return urlsplit(address)
    return None
