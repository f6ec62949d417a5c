"""Admin pages for users, groups and the login log; a project that embeds the app has its own."""

from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from schedules import services
from schedules.admin.bases import DeclaredLookups, moment
from schedules.models import Event, Execution, Job, Profile, Token
from schedules.result import Err, Ok
from schedules.services.people.profiles import SYSTEM_USER
from schedules.web.messages import message_of

DATES = (moment("last_login"), moment("date_joined"))
# The most rows named in an answer.
MAX_NAMED = 50
GRANTS = ("is_staff", "is_superuser", "groups", "user_permissions")


class AccountAdmin(DeclaredLookups[User], UserAdmin[User]):
    """Users; only superusers change rights, staff, and Cronty's own user."""

    actions = ["end_access"]
    # Nobody needs to change these, and the hour that repeats in autumn could not be saved.
    readonly_fields = DATES
    # Screen readers cannot read Django's control with two lists.
    filter_horizontal = ()

    def get_fieldsets(self, request: HttpRequest, obj: User | None = None) -> Any:
        fieldsets = super().get_fieldsets(request, obj)
        return [*fieldsets[:-1], ("Important dates", {"fields": DATES})] if obj else fieldsets

    @admin.action(description="End all sessions and tokens", permissions=["change"])
    def end_access(self, request: HttpRequest, chosen: QuerySet[User]) -> None:
        for user in chosen:
            if not _may_touch(request, user):
                self.message_user(request, f"{user}: only a superuser may do that.", messages.ERROR)
                continue
            match services.end_access(user, by=request.user, door=Event.Door.ADMIN):
                case Ok(tokens):
                    self.message_user(request, f"{user}: all sessions and {tokens} tokens have ended.")
                case Err() as problem:
                    self.message_user(request, f"{user}: {message_of(problem)}", messages.ERROR)

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> Any:
        fields = super().get_readonly_fields(request, obj)
        return fields if _is_superuser(request) else (*fields, *GRANTS)

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_change_permission(request, obj) and _may_touch(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_delete_permission(request, obj) and _may_touch(request, obj)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Delete a user's profile and tokens along with the user, although nobody can delete them on their own pages."""
        deleted, counts, needed, protected = super().get_deleted_objects(objs, request)
        needed -= {model._meta.verbose_name for model in (Profile, Token, Job, Execution, Event)}
        if protected:
            protected = [
                "Deactivate this user instead: Cronty keeps their jobs and history.",
                *protected[:MAX_NAMED],
            ]
        return deleted, counts, needed, protected


class RightsAdmin(DeclaredLookups[Group], GroupAdmin):
    """Groups; only superusers change them, because a group grants permissions to its members."""

    filter_horizontal = ()

    def has_add_permission(self, request: HttpRequest) -> bool:
        return _is_superuser(request)

    def has_change_permission(self, request: HttpRequest, obj: Group | None = None) -> bool:
        return _is_superuser(request)

    def has_delete_permission(self, request: HttpRequest, obj: Group | None = None) -> bool:
        return _is_superuser(request)


def register_accounts() -> None:
    """Name the site, and replace the admin pages of Django and other packages, except those of the operator's apps."""
    admin.site.site_header = admin.site.site_title = "Cronty"
    admin.site.index_title = "Administration"
    admin.site.enable_nav_sidebar = False
    pages: dict[Any, type[admin.ModelAdmin[Any]]] = {User: AccountAdmin, Group: RightsAdmin}
    for model, page in list(admin.site._registry.items()):
        if isinstance(page, DeclaredLookups) or _is_of_operator(model):
            continue
        admin.site.unregister(model)
        # Connected apps are on the page for tokens; in the admin, staff could change where an app redirects to.
        if model._meta.app_label != "oauth2_provider":
            registered = type(page)
            wrapped = type(registered.__name__, (DeclaredLookups, registered), {})
            admin.site.register(model, pages.get(model, wrapped))


def _is_of_operator(model: type[Model]) -> bool:
    name = model._meta.app_config.name
    return any(f"{app}.".startswith(f"{name}.") for app in settings.CRONTY_APPS)


def _may_touch(request: HttpRequest, user: User | None) -> bool:
    """Return whether the requester is a superuser, or the user has no special rights."""
    if user is None or _is_superuser(request):
        return True
    return not (user.is_staff or user.is_superuser or user.username == SYSTEM_USER)


def _is_superuser(request: HttpRequest) -> bool:
    return bool(request.user.is_superuser)
