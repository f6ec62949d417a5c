"""The page that connects agents: tokens, and configuration to paste into each client."""

import base64
import json
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe
from django.views.generic import TemplateView

from schedules import services
from schedules.models import Token
from schedules.result import Err, Ok
from schedules.services import IssuedToken
from schedules.services.installation.local_server import local_server, omitted_variable_note
from schedules.services.people.connected_apps import mcp_address
from schedules.tasks.forms.errors import add_errors
from schedules.web.bundle import build_bundle
from schedules.web.forms.agents import LIFETIMES, TOOLS
from schedules.web.forms.rendering import PageForm
from schedules.web.views.page import FormPageMixin, back, render_page, show_problem

PLACEHOLDER = "YOUR_TOKEN"


class TokenForm(PageForm):
    name = forms.CharField(
        label="Name", max_length=100, help_text='Appears in the activity log, e.g. "laptop".'
    )
    scopes = forms.ChoiceField(
        label="Access", choices=[("read,write", "Read and write"), ("read", "Read only")], required=False
    )
    tools = forms.ChoiceField(label="Tools", choices=list(TOOLS.items()), required=False)
    kind = forms.ChoiceField(
        label="Type",
        choices=Token.Kind.choices,
        required=False,
        help_text="Only a note for the activity log; it does not change what the agent may do.",
    )
    expires = forms.ChoiceField(
        label="Expires", choices=list(LIFETIMES.items()), initial="365", required=False
    )

    def wanted(self) -> dict[str, Any]:
        """Return the arguments for `services.issue_token`."""
        cleaned = self.cleaned_data
        return {
            "name": cleaned["name"],
            "scopes": (cleaned["scopes"] or "read,write").split(","),
            "families": [cleaned["tools"]] if cleaned["tools"] else [],
            "kind": cleaned["kind"] or Token.Kind.CONVERSATION,
            "expires_in": timedelta(days=int(cleaned["expires"])) if cleaned["expires"] else None,
        }


class ConnectPage(FormPageMixin, TemplateView):
    template_name = "schedules/connect.html"

    def make_form(self, data: Any = None) -> TokenForm:
        return TokenForm(data)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        tokens = Token.objects.filter(owner=self.actor.user.pk, revoked_at=None)
        kwargs.setdefault("form", TokenForm(initial={"name": "" if tokens.exists() else "laptop"}))
        return super().get_context_data(
            tokens=tokens,
            snippets=snippets(PLACEHOLDER, self.actor.user.get_username()),
            oauth=mcp_address() if settings.CRONTY_OAUTH else "",
            **kwargs,
        )

    def post(self, request: HttpRequest) -> HttpResponse:
        """Create a token."""
        form = TokenForm(request.POST)
        if not form.is_valid():
            return self.render_to_response(self.get_context_data(form=form), status=422)
        match services.issue_token(request.user, **form.wanted()):
            case Ok(issued):
                return show_token(request, issued)
            case Err() as problem:
                add_errors(form, problem)
                return self.render_to_response(self.get_context_data(form=form), status=422)


def snippets(token: str, username: str) -> dict[str, str]:
    """Return the configuration of each client, ready to paste."""
    url, bearer = mcp_address(), f"Bearer {token}"
    remote = {"url": url, "headers": {"Authorization": bearer}}
    vscode = {
        "inputs": [{"type": "promptString", "id": "cronty", "description": "Cronty token", "password": True}],  # nosec B105  # whether the client hides what is typed
        "servers": {
            "cronty": {"type": "http", "url": url, "headers": {"Authorization": "Bearer ${input:cronty}"}}
        },
    }
    config = base64.b64encode(json.dumps(remote).encode()).decode()
    ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    return {
        "code": f'claude mcp add --transport http cronty {url} --header "Authorization: {bearer}"',
        "desktop": json.dumps({"mcpServers": {"cronty": local_server(username, tools="core")}}, indent=2),
        "desktop_note": omitted_variable_note(),
        "cursor": json.dumps({"mcpServers": {"cronty": remote}}, indent=2),
        "cursor_link": f"cursor://anysphere.cursor-deeplink/mcp/install?name=cronty&config={config}",
        "vscode": json.dumps(vscode, indent=2),
        "vscode_link": f"vscode:mcp/install?{quote(json.dumps({'name': 'cronty', 'type': 'http', **remote}))}",
        "codex": f"export CRONTY_TOKEN={token}\n"
        f"codex mcp add cronty --url {url} --bearer-token-env-var CRONTY_TOKEN",
        "gemini": f'gemini mcp add --transport http cronty {url} --header "Authorization: {bearer}"',
        "http": f"curl -s {url} -H 'Authorization: {bearer}' -H 'Content-Type: application/json' \\\n"
        f"  -H 'Accept: application/json, text/event-stream' -d '{ping}'",
    }


@require_POST
def rotate(request: HttpRequest, token_id: int) -> HttpResponse:
    """Replace a token, and show the new one once."""
    match services.rotate_token(request.user, min(token_id, 2**63 - 1)):
        case Ok(issued):
            return show_token(request, issued)
        case Err() as problem:
            show_problem(request, problem)
            return back(request, reverse("schedules:connect"))


def show_token(request: HttpRequest, issued: IssuedToken) -> HttpResponse:
    """Show the text of a new token, which is not stored."""
    username = issued.token.owner.get_username()
    context = {"token": issued.token, "text": issued.text, "snippets": snippets(issued.text, username)}
    response = render_page(request, "schedules/connect.html", context)
    response["Cache-Control"] = "no-store"
    return response


@require_safe
def bundle(request: HttpRequest) -> HttpResponse:
    """Return the bundle for Claude Desktop."""
    response = HttpResponse(build_bundle(), content_type="application/zip")
    response["Content-Disposition"] = 'attachment; filename="cronty.mcpb"'
    return response


@require_safe
def first_call(request: HttpRequest, token_id: int) -> HttpResponse:
    """Report whether the agent has called yet; polled by the page that shows the token."""
    token = Token.objects.filter(owner_id=request.user.pk, pk=token_id).first() if token_id < 2**63 else None
    if token is None:
        raise Http404("token")
    return render_page(request, "schedules/parts/first_call.html", {"token": token})


@require_POST
def revoke(request: HttpRequest, token_id: int) -> HttpResponse:
    match services.revoke_token(request.user, min(token_id, 2**63 - 1)):
        case Ok(token):
            messages.success(request, f'Token "{token.name}" revoked.')
        case Err() as problem:
            show_problem(request, problem)
    return back(request, reverse("schedules:connect"))
