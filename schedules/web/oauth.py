"""The OAuth authorization server on top of django-oauth-toolkit: token rules and the consent page."""

import functools
from collections.abc import Callable
from datetime import timedelta
from hashlib import sha256
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

from csp.constants import SELF
from csp.decorators import csp_update
from django import forms
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from oauth2_provider.forms import AllowForm
from oauth2_provider.models import get_application_model, get_refresh_token_model
from oauth2_provider.oauth2_validators import OAuth2Validator
from oauth2_provider.views import AuthorizationView
from oauthlib.oauth2.rfc6749.errors import InvalidGrantError

from schedules import clock, limits
from schedules.models import Token
from schedules.result import Err
from schedules.services.people import connected_apps
from schedules.web.forms import PageForm
from schedules.web.forms.people import CONFIRM, LIFETIMES, TOOLS
from schedules.web.messages import add_errors
from schedules.web.oauth_clients import GRANTS, origin_of, redirect_problem, refuse
from schedules.web.views.page import PageMixin

ACCESS = {"read write": "See, create and change jobs", "read": "See jobs only"}


class ClientRules(OAuth2Validator):  # type: ignore[misc]
    """Restricts clients to allowed redirect addresses and grant types, and to connections that still exist."""

    def validate_redirect_uri(
        self, client_id: str, redirect_uri: str, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        return not redirect_problem(redirect_uri) and bool(
            super().validate_redirect_uri(client_id, redirect_uri, request, *args, **kwargs)
        )

    def validate_scopes(
        self, client_id: str, scopes: list[str], client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        # Read access is the least that a person can consent to.
        return "read" in scopes and bool(
            super().validate_scopes(client_id, scopes, client, request, *args, **kwargs)
        )

    def validate_grant_type(
        self, client_id: str, grant_type: str, client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        return grant_type in GRANTS and bool(
            super().validate_grant_type(client_id, grant_type, client, request, *args, **kwargs)
        )

    def validate_code(
        self, client_id: str, code: str, client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        is_valid = bool(super().validate_code(client_id, code, client, request, *args, **kwargs))
        if not is_valid:
            # An attacker may have exchanged the code before: revoke the tokens issued for it.
            get_refresh_token_model().revoke_family(_family_of(code))
        return is_valid

    def invalidate_authorization_code(
        self, client_id: str, code: str, request: Any, *args: Any, **kwargs: Any
    ) -> None:
        try:
            super().invalidate_authorization_code(client_id, code, request, *args, **kwargs)
        except InvalidGrantError:
            # Another request exchanged the code at the same time.
            get_refresh_token_model().revoke_family(_family_of(code))
            raise

    def validate_refresh_token(
        self, refresh_token: str, client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        if not super().validate_refresh_token(refresh_token, client, request, *args, **kwargs):
            return False
        return connected_apps.connection_of(request.user.pk, client.pk, clock.now()) is not None

    def save_bearer_token(self, token: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        # Consents name the address without a trailing slash.
        if _is_ours(str(request.resource)):
            request.resource = connected_apps.mcp_address()
        with transaction.atomic():
            saved = super().save_bearer_token(token, request, *args, **kwargs)
            if request.grant_type == "authorization_code":
                checksum = sha256(token["refresh_token"].encode()).hexdigest()
                tokens = get_refresh_token_model().objects.filter(token_checksum=checksum)
                tokens.update(token_family=_family_of(request.code))
        return saved


class ConsentForm(PageForm, AllowForm):  # type: ignore[misc]
    """The form with which a person connects an app: its permissions, tools and lifetime."""

    access = forms.ChoiceField(label="Permissions", choices=list(ACCESS.items()))
    tools = forms.ChoiceField(label="Tools", choices=list(TOOLS.items()), required=False)
    confirm = forms.ChoiceField(
        label="Ask me to confirm its jobs", choices=list(CONFIRM.items()), required=False
    )
    code_challenge = forms.CharField(
        required=False,
        widget=forms.HiddenInput,
        max_length=128,
        error_messages={"max_length": "The code challenge of the app is too long. Start again in the app."},
    )
    expires = forms.ChoiceField(
        label="Expires", choices=list(LIFETIMES.items()), initial="365", required=False
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        requested_scopes = str(self["scope"].value() or "").split()
        # A person may grant less than the app requests, never more.
        access = cast(forms.ChoiceField, self.fields["access"])
        access.choices = [
            (key, label) for key, label in ACCESS.items() if set(key.split()) <= set(requested_scopes)
        ]

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if cleaned.get("access"):
            cleaned["scope"] = cleaned["access"]
        # The only resource of this server; a token without a resource could not be used.
        cleaned["resource"] = connected_apps.mcp_address()
        return cleaned


class ConsentPage(PageMixin, AuthorizationView):  # type: ignore[misc]
    """Asks a person whether an app may act on their behalf."""

    template_name = "schedules/consent.html"
    form_class = ConsentForm

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        query = request.GET.copy()
        # Otherwise an app could skip the question for a person who agreed before.
        query.pop("approval_prompt", None)
        request.GET = query  # type: ignore[assignment]
        if problem := _resource_problem(query.getlist("resource")):
            refusal: HttpResponse = self.render_to_response({"problem": problem}, status=400)
            return refusal
        return self._allow_redirect(super().get(request, *args, **kwargs))

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return self._allow_redirect(super().post(request, *args, **kwargs))

    def form_valid(self, form: ConsentForm) -> HttpResponse:
        client = _client(form)
        if client is None:
            return self.form_invalid(form)
        with transaction.atomic():
            if form.cleaned_data["allow"] and (problem := self._connect(client, form)):
                add_errors(form, problem)
                return self.form_invalid(form)
            response: HttpResponse = super().form_valid(form)
            # Without an authorization code, the app cannot use the connection: don't store it.
            if "code" not in parse_qs(urlsplit(response.get("Location", "")).query):
                transaction.set_rollback(True)
        return response

    def _connect(self, client: Any, form: ConsentForm) -> Err | None:
        lifetime, tools = form.cleaned_data["expires"], form.cleaned_data["tools"]
        connected = connected_apps.connect_app(
            self.request.user,
            client,
            scopes=form.cleaned_data["access"].split(),
            families=[tools] if tools else [],
            confirm=form.cleaned_data["confirm"] or Token.Confirm.NEVER,
            expires_in=timedelta(days=int(lifetime)) if lifetime else None,
        )
        return connected if isinstance(connected, Err) else None

    def form_invalid(self, form: ConsentForm) -> HttpResponse:
        response: HttpResponse = self.render_to_response(self.get_context_data(form=form), status=422)
        return response

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        form = context.get("form")
        if form is not None:
            context["application"] = client = _client(form)
            context["app_name"] = limits.strip_unprintable(client.name).strip() if client else ""
            context["returns_to"] = origin_of(str(form["redirect_uri"].value()))
        return context

    def _allow_redirect(self, response: HttpResponse) -> HttpResponse:
        """Allow the form to redirect to the app, because browsers apply form-action to redirects as well."""
        address = self.request.POST.get("redirect_uri") or self.request.GET.get("redirect_uri", "")
        origin = origin_of(address)
        if not origin:
            return response
        allowed = csp_update({"form-action": [SELF, origin]})(lambda request: response)(self.request)
        return allowed  # type: ignore[return-value]


def refuse_nul(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Refuse a form with a NUL, because PostgreSQL raises an error for it."""

    @functools.wraps(view)
    def respond(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if any("\x00" in text for _, texts in request.POST.lists() for text in texts):
            return refuse("invalid_request", "Remove the NUL character (U+0000).", 400)
        return view(request, *args, **kwargs)

    return respond


def _family_of(code: str) -> UUID:
    """Return the family of all tokens issued for a code, which renewed tokens keep."""
    return UUID(bytes=sha256(code.encode(errors="replace")).digest()[:16])


def _client(form: ConsentForm) -> Any:
    return get_application_model().objects.filter(client_id=str(form["client_id"].value())).first()


def _resource_problem(resources: list[str]) -> str:
    foreign = [each for each in resources if not _is_ours(each)]
    return f"This app asks for access to {foreign[0][:200]}, which is not here." if foreign else ""


def _is_ours(resource: str) -> bool:
    return resource.removesuffix("/") == connected_apps.mcp_address()
