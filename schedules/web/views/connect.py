"""The page that connects agents: tokens, and configuration to paste into each client."""

from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe
from django.views.generic import TemplateView

from schedules import services
from schedules.models import Token
from schedules.models.tokens import TokenQuerySet
from schedules.result import Err, Ok
from schedules.services import IssuedToken
from schedules.services.people.connected_apps import mcp_address
from schedules.web.bundle import build_bundle
from schedules.web.forms.people import TokenForm
from schedules.web.messages import add_errors
from schedules.web.snippets import snippets
from schedules.web.views.page import FormPageMixin, back, finish, render_page, show_problem

PLACEHOLDER = "YOUR_TOKEN"


class ConnectPage(FormPageMixin, TemplateView):
    template_name = "schedules/connect.html"

    @property
    def tokens(self) -> TokenQuerySet:
        return Token.objects.filter(owner=self.actor.user.pk, revoked_at=None)

    def make_form(self, data: Any = None) -> TokenForm:
        return TokenForm(data, initial={"name": "" if self.tokens.exists() else "laptop"})

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(
            tokens=self.tokens,
            snippets=snippets(PLACEHOLDER, self.actor.user.get_username()),
            oauth=mcp_address() if settings.CRONTY_OAUTH else "",
            **kwargs,
        )

    def post(self, request: HttpRequest) -> HttpResponse:
        """Create a token."""
        form = self.make_form(request.POST)
        if not form.is_valid():
            return self.refused(form)
        match services.issue_token(request.user, **form.options()):
            case Ok(issued):
                return show_token(request, issued)
            case Err() as problem:
                add_errors(form, problem)
                return self.refused(form)


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
    result = services.revoke_token(request.user, min(token_id, 2**63 - 1))
    return finish(request, result, 'Token "{0.name}" revoked.', reverse("schedules:connect"))
