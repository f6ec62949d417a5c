"""The admin pages of tokens, issued and revoked by the services."""

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from schedules import clock, services
from schedules.admin.bases import USERNAME, ServiceAdmin, moment
from schedules.models import Event, Token
from schedules.result import Err, Ok, Result, sentence
from schedules.services.people.tokens import FAMILIES, SCOPES
from schedules.spec.readers import read_span
from schedules.web.messages import message_of
from schedules.when.phrases import PhraseError


class TokenAdminForm(forms.ModelForm[Token]):
    scopes = forms.MultipleChoiceField(
        choices=[(scope, scope) for scope in SCOPES], initial=SCOPES, widget=forms.CheckboxSelectMultiple
    )
    families = forms.MultipleChoiceField(
        choices=[(family, family) for family in FAMILIES],
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="Tool groups (none selected = all).",
    )
    expires_in = forms.CharField(
        required=False, max_length=40, help_text="Like 365d; leave empty for no expiry."
    )

    class Meta:
        model = Token
        fields = ("owner", "name", "kind", "scopes", "families", "confirm")

    def clean_expires_in(self) -> timedelta | None:
        text = self.cleaned_data["expires_in"]
        try:
            return read_span(text, clock.now()) if text else None
        except PhraseError as error:
            raise ValidationError(sentence(str(error))) from error


@admin.register(Token)
class TokenAdmin(ServiceAdmin[Token]):
    form = TokenAdminForm
    list_display = (
        *("name", "owner", "kind", "prefix", moment("created_at"), moment("expires_at")),
        *(moment("last_used_at"), moment("revoked_at")),
    )
    list_filter = ("kind", ("revoked_at", admin.EmptyFieldListFilter))
    list_select_related = ("owner",)
    search_fields = ("name", "prefix", f"owner__{USERNAME}")
    actions = ("revoke",)

    def get_fields(self, request: HttpRequest, obj: Token | None = None) -> list[Any]:
        if obj:
            return [*self.list_display, "scopes", "families", "confirm"]
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
        for token in tokens:
            match services.revoke_token(request.user, token.pk, door=Event.Door.ADMIN):
                case Err() as refusal:
                    self.message_user(request, f"{token.name}: {message_of(refusal)}", messages.ERROR)
                case _:
                    self.message_user(request, f"Revoked: {token.name}.")
