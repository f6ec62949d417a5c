"""The page that adds or replaces a channel, and actions on one: test, confirm, rename, delete, make it a default."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST
from django.views.generic import TemplateView

from schedules import services
from schedules.channels.web_push import WEB_PUSH, server_key
from schedules.result import Err, Ok
from schedules.services import Actor
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
from schedules.web.forms.channels import ChannelForm, kind_named
from schedules.web.messages import add_errors
from schedules.web.views.page import FormPageMixin, actor_of, finish, show_problem


class ChannelPage(FormPageMixin, TemplateView):
    """Add a channel of the kind in the address, or replace one."""

    template_name = "schedules/channel_form.html"

    def make_form(self, data: Any = None) -> ChannelForm:
        kind = kind_named(self.request.GET.get("kind", ""))
        number = self.request.GET.get("channel", "")
        existing = next((each for each in list_channels(self.actor) if str(each.number) == number), None)
        if existing:
            return ChannelForm(data, kind=existing.kind, initial={"name": existing.name, **existing.options})
        return ChannelForm(data, kind=kind)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        form = kwargs.setdefault("form", self.make_form())
        key = server_key() if form.kind is WEB_PUSH else ""
        return super().get_context_data(
            kinds=kinds_for(self.actor).values(), kind=form.kind, server_key=key, **kwargs
        )

    def post(self, request: HttpRequest) -> HttpResponse:
        form = self.make_form(request.POST)
        if form.is_valid():
            match set_channel(self.actor, form.cleaned_data["name"], form.kind.name, form.values()):
                case Ok(stored):
                    self._test(stored)
                    return HttpResponseRedirect(reverse("schedules:notifications"))
                case Err() as problem:
                    add_errors(form, problem)
        return self.render_to_response(self.get_context_data(form=form), status=422)

    def _test(self, stored: ListedChannel) -> None:
        """Send a test message at once, so that a typo shows up now and not at the first alert."""
        match send_test(self.actor, stored.name):
            case Ok(tested) if tested.is_sent:
                messages.success(self.request, f"Saved {stored.name}. {tested.message}")
            case Ok(tested):
                messages.warning(self.request, f"Saved {stored.name}, but the test failed: {tested.message}")
            case Err() as problem:
                show_problem(self.request, problem)


# Error reports must not contain the input.
page = sensitive_post_parameters()(ChannelPage.as_view())


def _find(actor: Actor, channel_id: int) -> ListedChannel:
    channel = next((listed for listed in list_channels(actor) if listed.number == channel_id), None)
    if channel is None:
        raise Http404("channel")
    return channel


@require_POST
def test(request: HttpRequest, channel_id: int) -> HttpResponse:
    """Send a test message, and show the result."""
    actor = actor_of(request)
    match send_test(actor, _find(actor, channel_id).name):
        case Ok(tested):
            (messages.success if tested.is_sent else messages.warning)(request, tested.message)
        case Err() as problem:
            show_problem(request, problem)
    return HttpResponseRedirect(reverse("schedules:notifications"), status=303)


@require_POST
def confirm(request: HttpRequest, channel_id: int) -> HttpResponse:
    actor = actor_of(request)
    result = confirm_channel(actor, _find(actor, channel_id).name, request.POST.get("code", ""))
    return finish(request, result, "Confirmed {0}.", reverse("schedules:notifications"))


@require_POST
def rename(request: HttpRequest, channel_id: int) -> HttpResponse:
    actor = actor_of(request)
    result = rename_channel(actor, _find(actor, channel_id).name, request.POST.get("name", ""))
    return finish(request, result, "Renamed to {0}.", reverse("schedules:notifications"))


@require_POST
def delete(request: HttpRequest, channel_id: int) -> HttpResponse:
    actor = actor_of(request)
    result = delete_channel(actor, _find(actor, channel_id).name)
    return finish(request, result, "Deleted {0}.", reverse("schedules:notifications"))


@require_POST
def use_for(request: HttpRequest, channel_id: int) -> HttpResponse:
    """Make a channel the default of notifications or of alerts."""
    actor = actor_of(request)
    name = _find(actor, channel_id).name
    is_for_alerts = request.POST.get("purpose") == "alerts"
    place = f"channel:{name}"
    preferences = Preferences(failure_topic=place) if is_for_alerts else Preferences(topic=place)
    match services.set_preferences(actor, **preferences):
        case Ok():
            what = "Alerts" if is_for_alerts else "Notifications that name no other place"
            messages.success(request, f"{what} go to {name}.")
        case Err() as problem:
            show_problem(request, problem)
    return HttpResponseRedirect(reverse("schedules:notifications"), status=303)
