"""The settings page, with its ping key and sign-out, and the choice between light and dark."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST
from django.views.generic import TemplateView

from schedules import services
from schedules.result import Err, Ok
from schedules.services.jobs.addresses import PING_PATH, change_ping_key
from schedules.services.people.channels import channel_names
from schedules.services.people.preferences import preference, quiet_words, runner_names
from schedules.web.forms.people import SettingsForm
from schedules.web.messages import add_errors
from schedules.web.views.page import FormPageMixin, back, show_problem
from schedules.when.zone_names import zone_note

YEAR_SECONDS = 365 * 86_400


class SettingsPage(FormPageMixin, TemplateView):
    """The person's time zone, places, alerts, display of times, and ping key."""

    template_name = "schedules/settings.html"

    def make_form(self, data: Any = None) -> SettingsForm:
        actor = self.page.actor
        return SettingsForm(
            data,
            initial={name: preference(self.page.profile, name) for name in SettingsForm.base_fields},
            shows_initial=True,
            channels=channel_names(actor),
            runners=runner_names(actor),
        )

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(
            ends_sessions=services.ends_sessions(),
            ping_key=self.page.profile.ping_key,
            ping_base=f"{settings.CRONTY_URL}{PING_PATH}",
            **kwargs,
        )

    def render_to_response(self, context: dict[str, Any], **kwargs: Any) -> HttpResponse:
        # The page shows the ping key, which is a secret.
        response = super().render_to_response(context, **kwargs)
        response["Cache-Control"] = "no-store"
        return response

    def post(self, request: HttpRequest) -> HttpResponse:
        form = self.make_form(request.POST)
        if form.is_valid():
            match services.update_profile(request.user, **form.changes()):
                case Ok(profile):
                    note = zone_note(request.POST.get("timezone", ""), form.cleaned_data["timezone"])
                    quiet = quiet_words(profile.quiet_hours) if "quiet_hours" in form.changes() else ""
                    messages.success(request, " ".join(filter(None, ["Saved.", note, quiet])))
                    return HttpResponseRedirect(reverse("schedules:settings"))
                case Err() as problem:
                    add_errors(form, problem)
        return self.refused(form)


@require_POST
def ping_key(request: HttpRequest) -> HttpResponse:
    """Create or replace the ping key, unless another tab has just done so."""
    match change_ping_key(request.user, shown=request.POST.get("shown", "")):
        case Ok():
            messages.success(request, "You have a new ping key.")
        case Err() as problem:
            show_problem(request, problem)
    return HttpResponseRedirect(f"{reverse('schedules:settings')}#ping-key", status=303)


@require_POST
def end_access(request: HttpRequest) -> HttpResponse:
    """End every session and token of the user, this session included."""
    match services.end_access(request.user, by=request.user):
        case Ok(tokens):
            logout(request)
            messages.success(
                request, f"Signed out everywhere; {tokens} token{'' if tokens == 1 else 's'} revoked."
            )
        case Err() as problem:
            show_problem(request, problem)
    return back(request, reverse("schedules:settings"))


@require_POST
@login_not_required
def theme(request: HttpRequest) -> HttpResponse:
    """Set the theme for browsers without JavaScript: light, dark, or that of the system."""
    response = back(request, reverse("schedules:jobs"))
    chosen = request.POST.get("theme")
    if chosen in ("light", "dark"):
        response.set_cookie("theme", chosen, max_age=YEAR_SECONDS, samesite="Lax")
    else:
        response.delete_cookie("theme", samesite="Lax")
    return response
