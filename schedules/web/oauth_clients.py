"""Clients of the authorization server: how they register themselves, and what is refused."""

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
# All that a header can hold, and that a browser shows as it is.
PLAIN_HOST = re.compile(r"[A-Za-z0-9.:\[\]-]*")
FETCH_SECONDS = 3
# How long a document is believed.
DOCUMENT_SECONDS = 3600


class DocumentPermission:
    """Clients whose id is the address of a document register themselves, too, and count like the others."""

    def has_permission(self, request: Any, client_id: str) -> bool:
        is_known = get_application_model().objects.filter(client_id=client_id).exists()
        return is_known or connected_apps.may_register(request.headers.get("REMOTE_ADDR") or "")


class DocumentFetcher:
    """Fetches the document of a client like every other request of ours: from public addresses alone."""

    def fetch(self, client_id: str) -> tuple[dict[str, Any], int]:
        """Return the metadata and for how many seconds they hold; raise CIMDError."""
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
    """Registration of clients by themselves: small, and few in an hour from one address."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if bad := _registration_refusal(request.body):
            return bad
        if not connected_apps.may_register(request.META.get("REMOTE_ADDR") or ""):
            description = "Too many clients have registered from this address; try again later."
            refusal = refuse("temporarily_unavailable", description, 429)
            refusal["Retry-After"] = "600"
            return refusal
        registered: HttpResponse = super().post(request, *args, **kwargs)
        return registered


class RegistrationChangeView(DynamicClientRegistrationManagementView):  # type: ignore[misc]
    """The registration of a client, which it can change later."""

    def put(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if bad := _registration_refusal(request.body):
            return bad
        changed: HttpResponse = super().put(request, *args, **kwargs)
        return changed


def redirect_problem(address: str) -> str:
    """Return why an app may not be sent an answer at this address, or an empty text."""
    parts = _parts(address)
    # More than one address in a text would be stored as several.
    if parts is None or address.split() != [address]:
        return "give one valid address in each text."
    if not PLAIN_HOST.fullmatch(parts.netloc):
        return "use a host of ASCII letters, digits, dots and hyphens, and no user name."
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        return "use https, or http on the loopback address."
    return ""


def origin_of(address: str) -> str:
    """Return where an answer goes, as a source for a Content-Security-Policy; an empty text if nowhere."""
    parts = _parts(address)
    if parts is None or redirect_problem(address):
        return ""
    if parts.scheme not in ("http", "https"):
        return f"{parts.scheme}:" if parts.scheme else ""
    return f"{parts.scheme}://{parts.netloc}"


def refuse(error: str, description: str, status: int) -> JsonResponse:
    return JsonResponse({"error": error, "error_description": description}, status=status)


def _registration_refusal(body: bytes) -> JsonResponse | None:
    """Return the refusal of a registration that the library would accept, or fail on."""
    if len(body) > MAX_REGISTRATION_LENGTH:
        return refuse("invalid_client_metadata", f"At most {MAX_REGISTRATION_LENGTH} bytes.", 413)
    try:
        metadata = json.loads(body)
    except RecursionError:
        return refuse("invalid_client_metadata", "This is not a registration.", 400)
    except ValueError:
        return None  # The registration itself explains this.
    problem = _metadata_problem(metadata)
    return refuse(*problem, 400) if problem else None


def _metadata_problem(metadata: Any) -> tuple[str, str] | None:
    """Return an error code and a description for metadata that the library would accept, or fail on."""
    # Written with more spaces, the same metadata is a little longer.
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
    # The library explains everything else.
    return [each for each in values if isinstance(each, str)] if isinstance(values, list) else []


def _parts(address: str) -> SplitResult | None:
    """Return the parts of an address, or None for a text that is not one."""
    with suppress(ValueError):
        return urlsplit(address)
    return None
