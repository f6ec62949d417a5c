"""Admin pages of what belongs to people: tokens, calendars, channels, secrets, event subscriptions and profiles."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from schedules import clock, services
from schedules.admin.bases import (
    USERNAME,
    OwnerFilter,
    ReadOnlyAdmin,
    ServiceAdmin,
    owned_by,
    report,
    user_of,
)
from schedules.admin.forms import ProfileForm, TokenAdminForm
from schedules.admin.local_times import moment, moment_words
from schedules.models import Calendar, Channel, Event, EventSubscription, Profile, Secret, Token
from schedules.result import Code, Err, Ok, Result
from schedules.services import Actor
from schedules.services.people.profiles import is_above
from schedules.services.runs.agent_stops import resume_agents, stop_agents


@admin.register(Token)
class TokenAdmin(ServiceAdmin[Token]):
    list_display = [
        "name",
        owned_by,
        "kind",
        "prefix",
        moment("created_at"),
        moment("expires_at"),
        moment("last_used_at"),
        moment("revoked_at"),
    ]
    list_filter = ["kind", ("revoked_at", admin.EmptyFieldListFilter), OwnerFilter]
    list_select_related = ["owner"]
    search_fields = ["name", "prefix", f"owner__{USERNAME}"]
    actions = ["revoke"]

    def get_form(
        self, request: HttpRequest, obj: Token | None = None, change: bool = False, **kwargs: Any
    ) -> type[forms.ModelForm[Token]]:
        if obj is None:
            kwargs["form"] = TokenAdminForm
        return super().get_form(request, obj, change=change, **kwargs)

    def get_fields(self, request: HttpRequest, obj: Token | None = None) -> list[Any]:
        if obj:
            return ["name", "owner", *self.list_display[2:], "scopes", "families", "confirm"]
        fields = ["name", "kind", "scopes", "families", "confirm", "expires_in"]
        # A token acts as its owner, so only a superuser may create one for another user.
        return ["owner", *fields] if getattr(request.user, "is_superuser", False) else fields

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"owner": request.user.pk}

    def has_change_permission(self, request: HttpRequest, obj: Token | None = None) -> bool:
        return obj is None and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Token | None = None) -> bool:
        return False

    def save_by_service(self, request: HttpRequest, obj: Token, form: Any) -> Result[Token]:
        fields = dict(form.cleaned_data)
        owner = fields.pop("owner", request.user)
        issued = services.issue_token(owner, by=request.user, door=Event.Door.ADMIN, **fields)
        if isinstance(issued, Err):
            return issued
        request.issued_token = issued.value.text  # type: ignore[attr-defined]
        return Ok(issued.value.token)

    def response_add(
        self, request: HttpRequest, obj: Token, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Show the token in this response, because a message for the next page could be stored in a cookie."""
        context = {"title": f"Token {obj.name}", "text": getattr(request, "issued_token", "")}
        context |= self.admin_site.each_context(request)
        response = TemplateResponse(request, "admin/schedules/new_token.html", context)
        response["Cache-Control"] = "no-store"
        return response

    @admin.action(description="Revoke", permissions=["change"])
    def revoke(self, request: HttpRequest, tokens: QuerySet[Token]) -> None:
        results = [
            (token.name, services.revoke_token(request.user, token.pk, door=Event.Door.ADMIN))
            for token in tokens
        ]
        report(self, request, results, "Revoked:")


@admin.register(Calendar)
class CalendarAdmin(ReadOnlyAdmin[Calendar]):
    """Read-only, because owners change calendars on their own page, which previews the dates."""

    list_display = ["name", owned_by, "kind", "words", "closes", "until", moment("updated_at")]
    list_filter = ["kind", OwnerFilter]
    list_select_related = ["owner"]
    search_fields = ["name"]
    fields = ["name", "owner", "kind", "words", "closes", "until", "timezone", "rule", moment("created_at")]


@admin.register(Channel)
class ChannelAdmin(ReadOnlyAdmin[Channel]):
    """How people are reached, without addresses and secrets, which are private."""

    list_display = ["name", owned_by, "kind", moment("last_sent_at"), moment("last_failed_at")]
    list_filter = ["kind", OwnerFilter]
    list_select_related = ["owner"]
    search_fields = ["name", f"owner__{USERNAME}"]
    fields = [
        "name",
        "owner",
        "kind",
        moment("confirmed_at"),
        moment("last_sent_at"),
        moment("last_failed_at"),
    ]


@admin.register(Secret)
class SecretAdmin(ReadOnlyAdmin[Secret]):
    """Where secrets may go and when they expire, without their values."""

    list_display = ["name", "belongs_to", "hosts", "commands", moment("updated_at"), "expiry"]
    list_filter = [("expires_at", admin.EmptyFieldListFilter), OwnerFilter]
    list_select_related = ["owner"]
    search_fields = ["name", f"owner__{USERNAME}"]
    fields = [
        *("name", "belongs_to", "hosts", "commands", moment("created_at"), moment("updated_at")),
        "expiry",
    ]

    @admin.display(description="owner")
    def belongs_to(self, secret: Secret) -> str:
        return owned_by(secret) if secret.owner else "installation"

    @admin.display(description="expires", ordering="expires_at")
    def expiry(self, secret: Secret) -> str | None:
        if secret.expires_at is None:
            return None
        words = moment_words(secret.expires_at)
        return f"{words} (expired)" if secret.expires_at <= clock.now() else words


@admin.register(EventSubscription)
class EventSubscriptionAdmin(ReadOnlyAdmin[EventSubscription]):
    """Who receives events, without addresses and secrets, which are private."""

    list_display = ["name", owned_by, "kind", "types", "job", moment("created_at"), moment("expires_at")]
    list_filter = ["kind", OwnerFilter]
    list_select_related = ["owner", "job"]
    search_fields = ["name", f"owner__{USERNAME}"]
    fields = [
        "name",
        "owner",
        "kind",
        "public_id",
        "types",
        "tag",
        "only_job",
        "job",
        moment("created_at"),
        moment("updated_at"),
        moment("old_until"),
        moment("verified_at"),
        moment("expires_at"),
    ]


@admin.register(Profile)
class ProfileAdmin(ServiceAdmin[Profile]):
    form = ProfileForm
    list_display = ["user", "zone", "topic", "failure_topic", "channel", "alert_channel"]
    list_select_related = ["user"]
    search_fields = [f"user__{USERNAME}"]
    fields = ["user", *ProfileForm.Meta.fields]
    readonly_fields = ["user"]
    actions = ["stop_agents", "start_agents"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Profile | None = None) -> bool:
        is_above_me = obj is not None and is_above(obj.user, request.user)
        return not is_above_me and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Profile | None = None) -> bool:
        return False

    def save_by_service(self, request: HttpRequest, obj: Profile, form: Any) -> Result[Profile]:
        changes = {name: form.cleaned_data[name] for name in form.changed_data}
        if (every := changes.pop("alert_every", None)) is not None:
            changes["alert_every"] = int(every.total_seconds())
        by = Actor(obj.user, Event.Door.ADMIN, name=user_of(request).get_username())
        return services.set_preferences(by, **changes) if changes else Ok(obj)

    @admin.action(description="Stop agents", permissions=["change"])
    def stop_agents(self, request: HttpRequest, profiles: QuerySet[Profile]) -> None:
        self._switch(request, profiles, stop_agents, "Agents stopped:")

    @admin.action(description="Let agents work again", permissions=["change"])
    def start_agents(self, request: HttpRequest, profiles: QuerySet[Profile]) -> None:
        self._switch(request, profiles, resume_agents, "Agents work again:")

    def _switch(
        self,
        request: HttpRequest,
        profiles: QuerySet[Profile],
        change: Callable[[Actor], Result[Any]],
        done: str,
    ) -> None:
        by = user_of(request).get_username()
        results = [
            (
                profile.user.get_username(),
                change(Actor(profile.user, Event.Door.ADMIN, name=by))
                if self.has_change_permission(request, profile)
                else Err(Code.USER_IS_SUPERIOR),
            )
            for profile in profiles.select_related("user")
        ]
        report(self, request, results, done)
