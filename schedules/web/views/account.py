"""Who is there? Login, the person's settings, and the look they like."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth import views as auth
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm, UsernameField
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse, reverse_lazy
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_POST
from django.views.generic import TemplateView
from django_htmx.http import HttpResponseClientRefresh

from schedules import services
from schedules.result import Err, Ok
from schedules.web.forms import SettingsForm, WhenForm
from schedules.web.views.page import PageMixin, back

YEAR = 365 * 86_400


class LoginForm(AuthenticationForm):
    """Takes a username, or an address that belongs to exactly one person."""

    username = UsernameField(
        label="Email or username",
        widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "username"}),
    )

    def clean_username(self) -> str:
        typed = str(self.cleaned_data["username"])
        if "@" not in typed or User.objects.filter(username=typed).exists():
            return typed
        owners = list(User.objects.filter(email__iexact=typed).values_list("username", flat=True)[:2])
        return owners[0] if len(owners) == 1 else typed


@method_decorator(login_not_required, name="dispatch")
class LoginPage(auth.LoginView):
    template_name = "login.html"
    authentication_form = LoginForm
    redirect_authenticated_user = True

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        # A live part asked after the session ended: the whole page must go to the login, not a piece of it.
        if getattr(request, "htmx", False):
            return HttpResponseClientRefresh()
        return super().dispatch(request, *args, **kwargs)


class PasswordPage(PageMixin, auth.PasswordChangeView):
    template_name = "password.html"
    success_url = reverse_lazy("schedules:settings")

    def form_valid(self, form: Any) -> HttpResponse:
        messages.success(self.request, "Your password is changed.")
        return super().form_valid(form)


class SettingsPage(PageMixin, TemplateView):
    """The zone times are shown in, and where failures are told."""

    template_name = "schedules/settings.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        profile = self.page.profile
        initial = {"timezone": profile.timezone, "failure_topic": profile.failure_topic}
        kwargs.setdefault("form", SettingsForm(initial=initial))
        return super().get_context_data(zones=WhenForm.zones(), **kwargs)

    def post(self, request: HttpRequest) -> HttpResponse:
        form = SettingsForm(request.POST)
        if form.is_valid():
            match services.update_profile(request.user, **form.cleaned_data):
                case Ok():
                    messages.success(request, "Saved.")
                    return HttpResponseRedirect(reverse("schedules:settings"))
                case Err() as problem:
                    form.take_errors(problem.errors, problem.message)
        return self.render_to_response(self.get_context_data(form=form), status=422)


@require_POST
@login_not_required
def theme(request: HttpRequest) -> HttpResponse:
    """Switch to light or dark without a script."""
    response = back(request, "/")
    chosen = "light" if request.POST.get("theme") == "light" else "dark"
    response.set_cookie("theme", chosen, max_age=YEAR, samesite="Lax")
    return response
