"""Pages of what a person stores for jobs: calendars, secrets and channels, each with its list, form and actions."""

from collections.abc import Callable, Sequence
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST
from django.views.generic import TemplateView

from schedules import services
from schedules.channels.web_push import WEB_PUSH, server_key
from schedules.channels.webhook import WEBHOOK
from schedules.result import Err, Ok, Result
from schedules.services import Actor
from schedules.services.people.calendars import (
    delete_calendar,
    list_calendars,
    preview_calendar,
    set_calendar,
)
from schedules.services.people.channel_tests import send_test
from schedules.services.people.channels import (
    ListedChannel,
    confirm_channel,
    delete_channel,
    kinds_for,
    list_channels,
    rename_channel,
    set_channel,
)
from schedules.services.people.preferences import Preferences
from schedules.services.people.stored_secrets import delete_secret, list_secrets, move_expiry, set_secret
from schedules.web.forms.stored import CalendarForm, ChannelForm, SecretForm, kind_named
from schedules.web.messages import add_errors
from schedules.web.views.page import FormPageMixin, actor_of, finish, show_problem

CALENDARS, SECRETS, CHANNELS = "schedules:calendars", "schedules:secrets", "schedules:notifications"
NEW_SECRET = "cronty_new_webhook_secret"  # noqa: S105  # nosec B105  (a session key)


def find_row(rows: Sequence[Any], number: str | int) -> Any:
    """Return the row with this number, or None."""
    return next((row for row in rows if str(row.number) == str(number)), None)


def change_row(
    request: HttpRequest, page: str, row: Any, verb: Callable[[Any], Result[Any]], message: str
) -> HttpResponse:
    """Do something with a row, and go back to its page; another tab may have deleted it already."""
    if row is None and (name := request.POST.get("shown")):
        messages.warning(request, f"{name[:64]} was deleted already.")
        return HttpResponseRedirect(reverse(page), status=303)
    if row is None:
        raise Http404("row")
    return finish(request, verb(row), message, reverse(page))


class CalendarsPage(FormPageMixin, TemplateView):
    """List calendars; preview, add or change one."""

    template_name = "schedules/calendars.html"

    def make_form(self, data: Any = None, files: Any = None) -> CalendarForm:
        row = find_row(list_calendars(self.actor), self.request.GET.get("calendar", ""))
        return CalendarForm(data, files, initial=CalendarForm.values_of(row) if row else {"closes": "yes"})

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(calendars=list_calendars(self.actor), **kwargs)

    def post(self, request: HttpRequest) -> HttpResponse:
        form = self.make_form(request.POST, request.FILES)
        if not form.is_valid():
            return self.refused(form)
        is_preview = request.POST.get("then") == "preview"
        match (preview_calendar if is_preview else set_calendar)(self.actor, form.spec()):
            case Ok(shown) if is_preview:
                return self.render_to_response(self.get_context_data(form=form, shown=shown))
            case Ok(saved):
                messages.success(request, f"Saved {saved.name}.")
                return HttpResponseRedirect(reverse(CALENDARS))
            case Err() as problem:
                add_errors(form, problem)
                return self.refused(form)


@require_POST
def forget_calendar(request: HttpRequest, calendar_id: int) -> HttpResponse:
    actor = actor_of(request)
    row = find_row(list_calendars(actor), calendar_id)
    return change_row(request, CALENDARS, row, lambda row: delete_calendar(actor, row.name), "Deleted {0}.")


class SecretsPage(FormPageMixin, TemplateView):
    """List secrets without their values; add or replace one, or move its expiry."""

    template_name = "schedules/secrets.html"

    def make_form(self, data: Any = None) -> SecretForm:
        row = find_row(list_secrets(self.actor), self.request.GET.get("secret", ""))
        is_superuser = bool(getattr(self.actor.user, "is_superuser", False))
        return SecretForm(data, initial=SecretForm.values_of(row) if row else {}, is_superuser=is_superuser)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(secrets=list_secrets(self.actor), **kwargs)

    def post(self, request: HttpRequest) -> HttpResponse:
        if "secret" in request.POST:
            return self._move_expiry(request)
        form = self.make_form(request.POST)
        if not form.is_valid():
            return self.refused(form)
        typed = dict(form.cleaned_data)
        expires = typed.pop("expires_at")
        existing = {(listed.name, listed.of_installation) for listed in list_secrets(self.actor)}
        match set_secret(self.actor, **typed, expires=expires):
            case Ok(stored):
                verb = "Replaced" if (stored.name, stored.of_installation) in existing else "Saved"
                messages.success(request, f"{verb} {stored.name}.")
                return HttpResponseRedirect(reverse(SECRETS))
            case Err() as problem:
                add_errors(form, problem)
                return self.refused(form)

    def _move_expiry(self, request: HttpRequest) -> HttpResponse:
        actor, expires = self.actor, request.POST.get("expires_at", "")
        return change_row(
            request,
            SECRETS,
            find_row(list_secrets(actor), request.POST["secret"]),
            lambda row: move_expiry(actor, row.name, expires, of_installation=row.of_installation),
            "Changed when {0.name} expires.",
        )


# Error reports must not contain the value of a secret.
secrets = sensitive_post_parameters("value")(SecretsPage.as_view())


@require_POST
def forget_secret(request: HttpRequest, secret_id: int) -> HttpResponse:
    actor = actor_of(request)
    return change_row(
        request,
        SECRETS,
        find_row(list_secrets(actor), secret_id),
        lambda row: delete_secret(actor, row.name, of_installation=row.of_installation),
        "Deleted {0}. Runs that refer to it fail from now on.",
    )


class ChannelPage(FormPageMixin, TemplateView):
    """Add a channel of the kind in the address, or replace one; the list is on the page of notifications."""

    template_name = "schedules/channel_form.html"

    def make_form(self, data: Any = None) -> ChannelForm:
        row = find_row(list_channels(self.actor), self.request.GET.get("channel", ""))
        if row:
            return ChannelForm(data, kind=row.kind, initial={"name": row.name, **row.options})
        return ChannelForm(data, kind=kind_named(self.request.GET.get("kind", "")))

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        kind = kwargs.setdefault("form", self.make_form()).kind
        key = server_key() if kind is WEB_PUSH else ""
        return super().get_context_data(
            kinds=kinds_for(self.actor).values(), kind=kind, server_key=key, **kwargs
        )

    def post(self, request: HttpRequest) -> HttpResponse:
        form = self.make_form(request.POST)
        if not form.is_valid():
            return self.refused(form)
        match set_channel(self.actor, form.cleaned_data["name"], form.kind.name, form.values()):
            case Ok(stored) if stored.kind is WEBHOOK:
                keep_secret(request, stored.number, stored.new_secret)
                messages.success(request, f"Saved {stored.name}.")
                return HttpResponseRedirect(reverse("schedules:webhook", args=[stored.number]), status=303)
            case Ok(stored):
                # At once, so that a typo shows up now and not at the first alert.
                show_test(request, self.actor, stored.name, f"Saved {stored.name}.")
                return HttpResponseRedirect(reverse(CHANNELS))
            case Err() as problem:
                add_errors(form, problem)
                return self.refused(form)


# Error reports must not contain the input.
channel = sensitive_post_parameters()(ChannelPage.as_view())


def show_test(request: HttpRequest, actor: Actor, name: str, saved: str = "") -> None:
    """Send a test message, and show the result."""
    match send_test(actor, name):
        case Ok(tested) if tested.is_sent:
            messages.success(request, f"{saved} {tested.message}".strip())
        case Ok(tested):
            failed = f"{saved[:-1]}, but the test failed: " if saved else ""
            messages.warning(request, f"{failed}{tested.message}")
        case Err() as problem:
            show_problem(request, problem)


def find_channel(actor: Actor, channel_id: int) -> ListedChannel:
    for row in list_channels(actor):
        if row.number == channel_id:
            return row
    raise Http404("channel")


def keep_secret(request: HttpRequest, channel_id: int, secret: str | None) -> None:
    """Keep a new secret of a webhook in the session, so that its page can show it once."""
    if secret:
        request.session[NEW_SECRET] = {"id": channel_id, "secret": secret}


@require_POST
def test_channel(request: HttpRequest, channel_id: int) -> HttpResponse:
    actor = actor_of(request)
    row = find_channel(actor, channel_id)
    show_test(request, actor, row.name)
    address = reverse("schedules:webhook", args=[row.number]) if row.kind is WEBHOOK else reverse(CHANNELS)
    return HttpResponseRedirect(address, status=303)


@require_POST
def change_channel(request: HttpRequest, channel_id: int, verb: str) -> HttpResponse:
    """Confirm, rename or delete a channel, or make it the default of notifications or of alerts."""
    actor, posted = actor_of(request), request.POST
    name = find_channel(actor, channel_id).name
    match verb:
        case "confirm":
            result, message = confirm_channel(actor, name, posted.get("code", "")), "Confirmed {0}."
        case "rename":
            result, message = rename_channel(actor, name, posted.get("name", "")), "Renamed to {0}."
        case "delete":
            result, message = delete_channel(actor, name), "Deleted {0}."
        case _:
            return _use(request, actor, name)
    return finish(request, result, message, reverse(CHANNELS))


def _use(request: HttpRequest, actor: Actor, name: str) -> HttpResponse:
    is_for_alerts = request.POST.get("purpose") == "alerts"
    place = f"channel:{name}"
    preferences = Preferences(failure_topic=place) if is_for_alerts else Preferences(topic=place)
    what = "Alerts" if is_for_alerts else "Notifications that name no other place"
    result = services.set_preferences(actor, **preferences)
    return finish(request, result, lambda _: f"{what} go to {name}.", reverse(CHANNELS))
