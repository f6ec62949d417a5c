"""Login and password pages of the site; a project that embeds the app has its own."""

import logging
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import get_user_model, views
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm, PasswordResetForm, UsernameField
from django.db.models import Q
from django.http import HttpResponse
from django.urls import reverse_lazy
from django.utils.decorators import method_decorator
from django_htmx.http import HttpResponseClientRefresh

from cronty_site.logins import network_of
from schedules.services.people.hourly_limits import HourlyLimit
from schedules.web.views.page import PageMixin

# Per user, and per address of a client.
_messages, _requests = HourlyLimit(3), HourlyLimit(10)
logger = logging.getLogger(__name__)


class LoginForm(AuthenticationForm):
    """Accepts a username, or an email address that belongs to exactly one user."""

    username = UsernameField(
        label="Email or username",
        widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "username"}),
    )

    error_messages = AuthenticationForm.error_messages | {"invalid_login": "Wrong username or password."}

    def clean_username(self) -> str:
        typed = str(self.cleaned_data["username"])
        # One query for all names, so that its time does not reveal what kind of name it is.
        matches = get_user_model().objects.filter(Q(username=typed) | Q(email__iexact=typed))
        names = list(matches.values_list("username", flat=True)[:3])
        return names[0] if len(names) == 1 and typed not in names else typed


@method_decorator(login_not_required, name="dispatch")
class LoginPage(views.LoginView):
    template_name = "login.html"
    authentication_form = LoginForm
    redirect_authenticated_user = True

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        # If the session ends during a live refresh, reload the whole page, which shows the login.
        if getattr(request, "htmx", False):
            return HttpResponseClientRefresh()
        return super().dispatch(request, *args, **kwargs)

    def get_redirect_url(self, *args: Any, **kwargs: Any) -> str:
        """Return the page to open after the login, or an empty text if that is the login page itself."""
        target = super().get_redirect_url(*args, **kwargs)
        return "" if urlsplit(target).path == self.request.path else target


class PasswordPage(PageMixin, views.PasswordChangeView):
    template_name = "password.html"
    success_url = reverse_lazy("schedules:settings")

    def form_valid(self, form: Any) -> HttpResponse:
        messages.success(self.request, "Password changed.")
        return super().form_valid(form)


class ForgottenPasswordForm(PasswordResetForm):
    """Sends the message in the background, so that the response time does not reveal whether the address exists."""

    def send_mail(self, *args: Any, **kwargs: Any) -> None:
        context: dict[str, Any] = args[2]
        user = context["user"].pk
        # The page shows the usual text, because an error would reveal that the address exists.
        if not _messages.allows(str(user)):
            logger.warning("No message to choose a new password for user %s: too many within an hour", user)
            return
        Thread(target=super().send_mail, args=args, kwargs=kwargs, daemon=True).start()


class ForgottenPasswordPage(views.PasswordResetView):
    template_name = "password_reset.html"
    subject_template_name = "password_reset_subject.txt"
    email_template_name = "password_reset_email.txt"
    form_class = ForgottenPasswordForm
    # Not the Host header of the request, which an attacker could set.
    extra_email_context = {"site": settings.CRONTY_URL}

    def form_valid(self, form: Any) -> HttpResponse:
        if not _requests.allows(network_of(self.request) or ""):
            form.add_error("email", "Too many requests from this address. Try again in an hour.")
            return self.render_to_response(self.get_context_data(form=form), status=429)
        return super().form_valid(form)


class ForgottenPasswordSentPage(views.PasswordResetDoneView):
    template_name = "password_reset_sent.html"


class NewPasswordPage(views.PasswordResetConfirmView):
    template_name = "password_reset_new.html"


class NewPasswordSetPage(views.PasswordResetCompleteView):
    template_name = "password_reset_done.html"
